"""A third-party package: built, installed, discovered by its entry points, and run."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.sized_cache import SizedCache
from ragflow_lg.catalog import load_catalog
from ragflow_lg.server.assembly import library
from ragflow_lg.server.assembly.open_services import tool_policies
from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.sections import AgentsSection
from tests.architecture.sources import ROOT
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.canvas import node
from tests.fakes.services import FixedClock, Reply
from tests.server.cli.command import call

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


@pytest.fixture
def installed(package_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Put the installed package on the path of this process, whose catalog and canvases are of another path."""
    monkeypatch.setattr(sys, "path", [str(package_path), *sys.path])
    monkeypatch.setattr(library, "_cache", SizedCache[bytes, Any](2**20))
    library.catalog.cache_clear()
    yield package_path
    library.catalog.cache_clear()


def answer_of(stdout: str) -> str:
    frames = [json.loads(line) for line in stdout.splitlines()]
    return "".join(frame["data"]["content"] for frame in frames if frame["event"] == "message")


def test_the_components_command_lists_it(installed: Path) -> None:
    result = call("components", "Shout", "--output", "json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["description"] == "Say a text loudly."


def test_a_canvas_with_it_is_valid(installed: Path) -> None:
    result = call("check", str(CANVAS))
    assert result.returncode == 0, result.stdout + result.stderr


def test_it_runs_by_its_alias_in_a_new_process(package_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "ragflow_lg", "run", str(CANVAS), "hello", "--events", "json", "--model", "demo"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(package_path)])},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    assert answer_of(run.stdout) == "I said HELLO!!"


def test_without_the_package_the_canvas_is_invalid() -> None:
    result = call("check", str(CANVAS))
    assert result.returncode != 0
    assert "component-unknown" in result.stdout


def test_a_function_is_listed_as_a_component(installed: Path) -> None:
    result = call("components", "CountWords", "--output", "json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["description"] == "Count the words of a text."


def test_a_function_can_be_a_node_and_a_tool(installed: Path) -> None:
    result = call("check", str(TOOLS))
    assert result.returncode == 0, result.stdout + result.stderr
    run = call("run", str(TOOLS), "a b a", "--events", "json", "--model", "demo")
    assert run.returncode == 0, run.stderr
    assert answer_of(run.stdout) == "2 different words"


def test_its_parser_reads_scanned_files(installed: Path, tmp_path: Path) -> None:
    params = {"layout_recognize": "MinerU", "inputs": {"doc": {"name": "Doc", "type": "file", "optional": True}}}
    components = {"begin": node("Begin", params, ["m"]), "m": node("Message", {"content": ["{begin@doc}{sys.files}"]})}
    canvas, scan = tmp_path / "scan.json", tmp_path / "scan.pdf"
    canvas.write_text(json.dumps({"components": components}))
    scan.write_bytes(b"%PDF")
    assert "layout_recognize" not in call("check", str(canvas)).stdout
    for options in (["--file", str(scan)], ["--input", f"doc=@{scan}"]):
        run = call("run", str(canvas), "hi", *options, "--events", "json", "--model", "demo")
        assert '["MinerU read 4 bytes"]' in answer_of(run.stdout), run.stderr


async def test_a_model_calls_functions_under_a_guard(installed: Path) -> None:
    policies = tool_policies(Settings(agents=AgentsSection(guards=("no_swearing",))), FixedClock())
    calls = ("CountWords_0", {"text": "a b"}), ("CountWords_0", {"text": "damn"}), ("Refund_1", {"order": 7})
    tools: list[Any] = [{"component_name": name, "name": name, "params": {}} for name in ("CountWords", "Refund")]
    replies = [tool_calls(*calls), Reply("ok")]
    played = await play_agent(replies, {"tools": tools}, catalog=load_catalog(), policies=policies)
    assert played.tool_results == [
        '{"words": 2}',
        "The call to CountWords was refused: Mind your language.",
        "Refund failed: LookupError: There is no order 7.",
    ]


def test_a_permit_of_the_settings_forbids_it(installed: Path, tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('[agents]\nallow_tools = ["CountWords"]\n')
    result = call("check", str(TOOLS), "--settings", str(settings))
    assert result.returncode == 1
    assert "The agent is not allowed to call 'Refund'" in result.stdout


def test_its_chat_model_serves_a_provider_of_the_settings(installed: Path, tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('[providers.Aviary]\nclient = "parrot"\n')
    canvas = ROOT / "examples" / "research_assistant.json"
    events = ["--events", "json"]
    options = ["--model", "ara@Aviary", "--settings", str(settings)]
    run = call("run", str(canvas), "bees", *events, *options)
    assert run.returncode == 0, run.stderr
    assert "ara: " in answer_of(run.stdout)
