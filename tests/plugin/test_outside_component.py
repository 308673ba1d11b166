"""What another package brings: built, installed beside ours, found by its entry points, and run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

PACKAGE = ROOT / "tests" / "fixtures" / "outside_component"
CANVAS = PACKAGE / "canvas.json"
TOOLS = PACKAGE / "tools.json"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the package into a folder of its own, without network; a copy, since building leaves files behind."""
    copy, target = tmp_path_factory.mktemp("source") / "package", tmp_path_factory.mktemp("installed")
    shutil.copytree(PACKAGE, copy)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(copy)], check=True, timeout=110
    )
    return target


def ragflow_lg(*arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command, with a further folder of installed packages."""
    folders = [str(ROOT), *([str(path)] if path else [])]
    return subprocess.run(
        [sys.executable, "-c", "from ragflow_lg.server.cli.entry import main; main()", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_command_lists_it(installed: Path) -> None:
    listed = ragflow_lg("components", "Shout", "--output", "json", path=installed)
    assert listed.returncode == 0, listed.stderr
    assert json.loads(listed.stdout)["description"] == "Say a text loudly."


def test_a_canvas_with_it_is_fine(installed: Path) -> None:
    checked = ragflow_lg("check", str(CANVAS), path=installed)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_it_runs_by_its_alias(installed: Path) -> None:
    run = ragflow_lg("run", str(CANVAS), "hello", "--events", "json", "--model", "demo", path=installed)
    assert run.returncode == 0, run.stderr
    frames = [json.loads(line) for line in run.stdout.splitlines()]
    answer = "".join(frame["data"]["content"] for frame in frames if frame["event"] == "message")
    assert answer == "I said HELLO!!"


def test_without_the_package_the_canvas_is_refused() -> None:
    checked = ragflow_lg("check", str(CANVAS))
    assert checked.returncode != 0
    assert "component-unknown" in checked.stdout


def test_a_function_is_a_component_by_its_name(installed: Path) -> None:
    listed = ragflow_lg("components", "CountWords", "--output", "json", path=installed)
    assert listed.returncode == 0, listed.stderr
    assert json.loads(listed.stdout)["description"] == "Count the words of a text."


def test_a_function_is_a_node_and_a_tool(installed: Path) -> None:
    checked = ragflow_lg("check", str(TOOLS), path=installed)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    run = ragflow_lg("run", str(TOOLS), "a b a", "--events", "json", "--model", "demo", path=installed)
    assert run.returncode == 0, run.stderr
    frames = [json.loads(line) for line in run.stdout.splitlines()]
    answer = "".join(frame["data"]["content"] for frame in frames if frame["event"] == "message")
    assert answer == "2 different words"


def test_a_model_calls_functions_and_the_guard_looks_on(installed: Path) -> None:
    program = (
        "import asyncio, json\n"
        "from ragflow_lg.catalog import load_catalog\n"
        "from ragflow_lg.server.assembly.library import tool_policies\n"
        "from ragflow_lg.server.settings import AgentsSection, Settings\n"
        "from tests.fakes.agents import play_agent, tool_calls\n"
        "from tests.fakes.services import FixedClock, Reply\n"
        "policies = tool_policies(Settings(agents=AgentsSection(guards=['no_swearing'])), FixedClock())\n"
        "texts = ('CountWords_0', {'text': 'a b'}), ('CountWords_0', {'text': 'damn'}), ('Refund_1', {'order': 7})\n"
        "tools = [{'component_name': n, 'name': n, 'params': {}} for n in ('CountWords', 'Refund')]\n"
        "replies = [tool_calls(*texts), Reply('ok')]\n"
        "played = play_agent(replies, {'tools': tools}, catalog=load_catalog(), policies=policies)\n"
        "print(json.dumps(asyncio.run(played).tool_results))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(installed)])},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        '{"words": 2}',
        "The call to CountWords was refused: Mind your language.",
        "Refund failed: LookupError: There is no order 7.",
    ]


def test_a_rule_of_the_settings_refuses_it(installed: Path, tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('[agents]\nallow_tools = ["CountWords"]\n')
    checked = ragflow_lg("check", str(TOOLS), "--settings", str(settings), path=installed)
    assert checked.returncode == 1
    assert "The agent may not call 'Refund'" in checked.stdout


def test_its_chat_model_answers_for_a_provider_of_the_settings(installed: Path, tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('[providers.Aviary]\nclient = "parrot"\n')
    canvas = ROOT / "examples" / "research_assistant.json"
    events = ["--events", "json"]
    chosen = ["--model", "ara@Aviary", "--settings", str(settings)]
    run = ragflow_lg("run", str(canvas), "bees", *events, *chosen, path=installed)
    assert run.returncode == 0, run.stderr
    frames = [json.loads(line) for line in run.stdout.splitlines()]
    assert "ara: " in "".join(frame["data"]["content"] for frame in frames if frame["event"] == "message")
