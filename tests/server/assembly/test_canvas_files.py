from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import CompileError, SettingsError
from ragflow_lg.dsl_compiler.source import MAX_BYTES
from ragflow_lg.server.assembly.canvas_files import CanvasFiles, read_canvas
from ragflow_lg.server.assembly.library import check_file, load_canvas
from ragflow_lg.server.settings import AgentsSection, McpSection, Settings
from tests.fakes.canvas import canvas, node

HELLO = canvas({"m": node("Message", {"content": "hello"})})


def write(path: Path, document: Any = HELLO) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), "utf-8")
    return path


def playing(**params: Any) -> dict[str, Any]:
    return canvas({"c": node("Canvas", {"arguments": {"query": "q"}, **params})})


def files(path: Path | None = None, **named: Path) -> CanvasFiles:
    return CanvasFiles(lambda: Settings(canvases=named), path)


def test_a_file_beside_and_below_is_found(tmp_path: Path) -> None:
    here = write(tmp_path / "a" / "main.json")
    write(tmp_path / "a" / "b" / "other.json")
    found = files(here).canvas_at_path("./b/../b/other.json")
    assert (found.label, json.loads(found.content)) == ("b/other.json", HELLO)
    assert found.key == found.deployment.key
    write(tmp_path / "a" / "b" / "third.json")
    assert found.deployment.canvas_at_path("third.json").label == "third.json"


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("../secret.json", "leads out"),
        ("b/../../secret.json", "leads out"),
        ("/etc/passwd", "leads out"),
        ("{here}/main.json", "leads out"),
        ("link.json", "leads out"),
        ("folder/secret.json", "leads out"),
        ("notes.txt", "has to end in .json"),
        ("none.json", "no such file"),
        ("pipe.json", "no such file"),
        (".", "has to end in .json"),
        ("a\0b.json", "no path of a file"),
        ("x" * 5000 + ".json", "no path of a file"),
    ],
)
def test_nothing_else_is_read(tmp_path: Path, path: str, says: str) -> None:
    here = write(tmp_path / "a" / "main.json")
    write(tmp_path / "secret.json")
    (tmp_path / "a" / "notes.txt").write_text("secret")
    (tmp_path / "a" / "link.json").symlink_to(tmp_path / "secret.json")
    (tmp_path / "a" / "folder").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "a" / "pipe.json")
    with pytest.raises(SettingsError, match=says):
        files(here).canvas_at_path(path.replace("{here}", str(tmp_path / "a")))


def test_a_canvas_that_is_no_file_has_none_beside() -> None:
    with pytest.raises(SettingsError, match="not read from a file"):
        files().canvas_at_path("x.json")


def test_canvases_of_the_settings_are_found_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "r.json")
    assert files(report=path).canvas_by_name("report").label == "report"
    with pytest.raises(SettingsError, match="Did you mean 'report'"):
        files(report=path).canvas_by_name("raport")
    with pytest.raises(SettingsError, match="no such file"):
        files(report=tmp_path).canvas_by_name("report")


def test_settings_are_read_only_when_they_are_asked_for(tmp_path: Path) -> None:
    def never() -> Settings:
        raise AssertionError

    load = check_file(write(tmp_path / "a.json"), never)
    assert load[0] is not None


def test_a_canvas_that_plays_others_sees_them_change(tmp_path: Path) -> None:
    here = write(tmp_path / "main.json", playing(path="other.json"))
    write(tmp_path / "other.json")
    settings = Settings()
    first = load_canvas(here, settings)
    write(tmp_path / "other.json", canvas({"m": node("Message", {"content": "changed"})}))
    assert load_canvas(here, settings).plan.canvas_hash != first.plan.canvas_hash


def test_a_kept_canvas_is_not_kept_from_another_rule() -> None:
    agent = {"llm_id": "m@T", "tools": [{"component_name": "Wikipedia", "name": "W", "params": {}}]}
    text = json.dumps(canvas({"a": node("Agent", agent)}))
    assert load_canvas(text, Settings()) is load_canvas(text, Settings())
    denied = Settings(agents=AgentsSection(deny_tools=("Wikipedia",)))
    with pytest.raises(CompileError, match="may not call 'Wikipedia'"):
        load_canvas(text, denied)


MCP = canvas({"a": node("Agent", {"llm_id": "m@T", "mcp": [{"mcp_id": "s", "tools": {"t": {}}}]})})


def serving(**more: Any) -> Settings:
    return Settings(mcp={"s": McpSection(command="x", **more)})


def test_servers_of_the_settings_and_what_they_allow_are_known() -> None:
    assert CanvasFiles(lambda: serving()).servers == {"s": None}
    assert CanvasFiles(lambda: serving(allow=["t"])).servers == {"s": ("t",)}
    unasked = CanvasFiles(serving, asks_servers=False)
    assert (unasked.servers, unasked.asked) == (None, {"servers": None})


def test_a_canvas_of_servers_is_kept_by_what_the_settings_say_of_them(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", MCP)
    assert load_canvas(path, serving()) is load_canvas(path, serving())
    with pytest.raises(CompileError, match="no MCP server 's'"):
        load_canvas(path, Settings())
    with pytest.raises(CompileError, match="may not call 't'"):
        load_canvas(path, serving(allow=["other"]))
    assert load_canvas(path, Settings(), asks_servers=False).plan.nodes
    with pytest.raises(CompileError, match="no MCP server 's'"):
        load_canvas(path, Settings())


def test_what_is_not_asked_holds_for_canvases_that_are_played(tmp_path: Path) -> None:
    path = write(tmp_path / "main.json", playing(path="inner.json"))
    write(tmp_path / "inner.json", canvas({**MCP["components"], "m": node("Message", {"content": "x"})}))
    with pytest.raises(CompileError, match="no MCP server 's'"):
        load_canvas(path, Settings())
    assert load_canvas(path, Settings(), asks_servers=False).plan.nodes


def test_a_huge_file_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES * 4)
    assert len(read_canvas(path)) == MAX_BYTES + 1
