import json
import os
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import CompileError, SettingsError
from ragflow_lg.integrations.mcp.mcp_settings import McpSection
from ragflow_lg.server.assembly.canvas_files import CanvasFiles
from ragflow_lg.server.assembly.library import load_canvas
from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.sections import AgentsSection
from tests.fakes.canvas import canvas, node
from tests.harness.rows import each_row

HELLO = canvas({"m": node("Message", {"content": "hello"})})


def write(path: Path, document: Any = HELLO) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), "utf-8")
    return path


def canvas_running(**params: Any) -> dict[str, Any]:
    return canvas({"c": node("Canvas", {"arguments": {"query": "q"}, **params})})


def files(path: Path | None = None, **canvases: Path) -> CanvasFiles:
    return CanvasFiles(lambda: Settings(canvases=canvases), path)


def test_files_next_to_a_canvas_and_below_are_found(tmp_path: Path) -> None:
    here = write(tmp_path / "a" / "main.json")
    write(tmp_path / "a" / "b" / "other.json")
    other = files(here).canvas_at_path("./b/../b/other.json")
    assert (other.label, json.loads(other.content)) == ("b/other.json", HELLO)
    assert other.key == other.deployment.key
    write(tmp_path / "a" / "b" / "third.json")
    assert other.deployment.canvas_at_path("third.json").label == "third.json"


@each_row(
    ("paths", "problem"),
    [
        (
            ["../secret.json", "b/../../secret.json", "/etc/passwd", "{here}/main.json"],
            "is outside the canvas's folder",
        ),
        (["link.json", "folder/secret.json"], "is outside the canvas's folder"),
        (["notes.txt", "."], "must end in .json"),
        (["none.json", "pipe.json"], "no such file"),
        (["a\0b.json", "x" * 5000 + ".json"], "not a valid file path"),
    ],
)
def test_no_other_file_is_read(tmp_path: Path, paths: list[str], problem: str) -> None:
    here = write(tmp_path / "a" / "main.json")
    write(tmp_path / "secret.json")
    (tmp_path / "a" / "notes.txt").write_text("secret")
    if not (tmp_path / "a" / "pipe.json").exists():
        (tmp_path / "a" / "link.json").symlink_to(tmp_path / "secret.json")
        (tmp_path / "a" / "folder").symlink_to(tmp_path)
        os.mkfifo(tmp_path / "a" / "pipe.json")
    for path in paths:
        with pytest.raises(SettingsError, match=problem):
            files(here).canvas_at_path(path.replace("{here}", str(tmp_path / "a")))


def test_a_canvas_without_a_file_finds_no_other_files() -> None:
    with pytest.raises(SettingsError, match="not read from a file"):
        files().canvas_at_path("x.json")


def test_canvases_of_the_settings_are_found_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "r.json")
    assert files(report=path).canvas_by_name("report").label == "report"
    with pytest.raises(SettingsError, match="Did you mean 'report'"):
        files(report=path).canvas_by_name("raport")
    with pytest.raises(SettingsError, match="no such file"):
        files(report=tmp_path).canvas_by_name("report")


def test_a_canvas_that_runs_others_is_not_cached(tmp_path: Path) -> None:
    here = write(tmp_path / "main.json", canvas_running(path="other.json"))
    write(tmp_path / "other.json")
    settings = Settings()
    first = load_canvas(here, settings)
    write(tmp_path / "other.json", canvas({"m": node("Message", {"content": "changed"})}))
    assert load_canvas(here, settings).plan.canvas_hash != first.plan.canvas_hash


def test_a_cached_canvas_is_compiled_again_under_other_rules() -> None:
    agent: dict[str, Any] = {"llm_id": "m@T", "tools": [{"component_name": "Wikipedia", "name": "W", "params": {}}]}
    text = json.dumps(canvas({"a": node("Agent", agent)}))
    assert load_canvas(text, Settings()) is load_canvas(text, Settings())
    denied = Settings(agents=AgentsSection(deny_tools=("Wikipedia",)))
    with pytest.raises(CompileError, match="is not allowed to call 'Wikipedia'"):
        load_canvas(text, denied)


MCP = canvas({"a": node("Agent", {"llm_id": "m@T", "mcp": [{"mcp_id": "s", "tools": {"t": {}}}]})})


def test_a_canvas_is_cached_by_the_behaviours_that_matter_to_it(tmp_path: Path) -> None:
    message = node("Message", {"content": ['{% if {sys.conversation_turns} == "1" %}x{% endif %}']})
    path = write(tmp_path / "a.json", canvas({"m": message}))
    as_ragflow = Settings(compat={"all": True})
    first = load_canvas(path, Settings())
    assert load_canvas(path, Settings()) is first
    assert not first.plan.compatibility.jinja_text
    assert load_canvas(path, as_ragflow).plan.compatibility.jinja_text
    assert load_canvas(path, compat="ragflow").plan.compatibility.jinja_text
    assert not load_canvas(path, as_ragflow, compat={}).plan.compatibility.jinja_text
    with pytest.raises(SettingsError, match="There is no behaviour 'jinja'"):
        load_canvas(path, compat={"jinja": True})


def test_canvases_with_mcp_servers_are_checked_with_the_settings_unless_nobody_asks(tmp_path: Path) -> None:
    path = write(tmp_path / "main.json", canvas_running(path="inner.json"))
    inner = write(tmp_path / "inner.json", canvas({**MCP["components"], "m": node("Message", {"content": "x"})}))
    for file in (path, inner):
        with pytest.raises(CompileError, match="no MCP server 's'"):
            load_canvas(file, Settings())
        assert load_canvas(file, Settings(), asks_servers=False).plan.nodes
        assert load_canvas(file, Settings().for_model("demo")).plan.nodes
        assert load_canvas(file, Settings(), model="demo").plan.nodes
    assert load_canvas(inner, Settings(mcp={"s": McpSection(command="x")})).plan.nodes
    with pytest.raises(CompileError, match="is not allowed to call 't'"):
        load_canvas(inner, Settings(mcp={"s": McpSection(command="x", allow=("other",))}))
