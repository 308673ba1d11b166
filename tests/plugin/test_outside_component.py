"""A third-party package: built, installed, discovered by its entry points, and run."""

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
def package_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install a copy of the package into a separate folder, without network; building leaves files in its source."""
    copy, target = tmp_path_factory.mktemp("source") / "package", tmp_path_factory.mktemp("installed")
    shutil.copytree(PACKAGE, copy)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(copy)], check=True, timeout=110
    )
    return target


def ragflow_lg(*arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command, optionally with a folder of installed packages."""
    folders = [str(ROOT), *([str(path)] if path else [])]
    return subprocess.run(
        [sys.executable, "-c", "from ragflow_lg.server.cli.entry import main; main()", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_components_command_lists_it(package_path: Path) -> None:
    result = ragflow_lg("components", "Shout", "--output", "json", path=package_path)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["description"] == "Say a text loudly."


def test_a_canvas_with_it_is_valid(package_path: Path) -> None:
    result = ragflow_lg("check", str(CANVAS), path=package_path)
    assert result.returncode == 0, result.stdout + result.stderr


def test_it_runs_by_its_alias(package_path: Path) -> None:
    run = ragflow_lg("run", str(CANVAS), "hello", "--events", "json", "--model", "demo", path=package_path)
    assert run.returncode == 0, run.stderr
    frames = [json.loads(line) for line in run.stdout.splitlines()]
    answer = "".join(frame["data"]["content"] for frame in frames if frame["event"] == "message")
    assert answer == "I said HELLO!!"


def test_without_the_package_the_canvas_is_invalid() -> None:
    result = ragflow_lg("check", str(CANVAS))
    assert result.returncode != 0
    assert "component-unknown" in result.stdout


def test_a_function_is_listed_as_a_component(package_path: Path) -> None:
    result = ragflow_lg("components", "CountWords", "--output", "json", path=package_path)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["description"] == "Count the words of a text."


def test_a_function_can_be_a_node_and_a_tool(package_path: Path) -> None:
    result = ragflow_lg("check", str(TOOLS), path=package_path)
    assert result.returncode == 0, result.stdout + result.stderr
    run = ragflow_lg("run", str(TOOLS), "a b a", "--events", "json", "--model", "demo", path=package_path)
    assert run.returncode == 0, run.stderr
    frames = [json.loads(line) for line in run.stdout.splitlines()]
    answer = "".join(frame["data"]["content"] for frame in frames if frame["event"] == "message")
    assert answer == "2 different words"


def test_a_model_calls_functions_under_a_guard(package_path: Path) -> None:
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
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(package_path)])},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == [
        '{"words": 2}',
        "The call to CountWords was refused: Mind your language.",
        "Refund failed: LookupError: There is no order 7.",
    ]


def test_a_permit_of_the_settings_forbids_it(package_path: Path, tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('[agents]\nallow_tools = ["CountWords"]\n')
    result = ragflow_lg("check", str(TOOLS), "--settings", str(settings), path=package_path)
    assert result.returncode == 1
    assert "The agent is not allowed to call 'Refund'" in result.stdout


def test_its_chat_model_serves_a_provider_of_the_settings(package_path: Path, tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('[providers.Aviary]\nclient = "parrot"\n')
    canvas = ROOT / "examples" / "research_assistant.json"
    events = ["--events", "json"]
    options = ["--model", "ara@Aviary", "--settings", str(settings)]
    run = ragflow_lg("run", str(canvas), "bees", *events, *options, path=package_path)
    assert run.returncode == 0, run.stderr
    frames = [json.loads(line) for line in run.stdout.splitlines()]
    assert "ara: " in "".join(frame["data"]["content"] for frame in frames if frame["event"] == "message")
