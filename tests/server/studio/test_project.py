from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path

import pytest

from ragflow_lg.errors import CompileError, SettingsError
from server.studio.project import CONFIG, MODULE, Watched, find_canvases, write_project
from tests.harness.studio import ROOT

LOOP = ROOT / "examples" / "loop.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a b.json", "a-b.json", "表.json", "2nd.json"):
        shutil.copy(LOOP, tmp_path / name)
    (tmp_path / "none.json").write_text("[]")
    return tmp_path


def test_every_canvas_gets_a_name_of_its_own(folder: Path) -> None:
    project = find_canvases(folder)
    assert {c.file.name: c.graph for c in project.canvases} == {
        "2nd.json": "canvas_2nd",
        "a b.json": "a_b",
        "a-b.json": "a_b_2",
        "表.json": "canvas_8868",
    }
    assert [file.name for file in project.left_out] == ["none.json"]


@pytest.mark.parametrize("keeps", [True, False])
def test_both_files_are_written_and_only_when_they_change(folder: Path, keeps: bool) -> None:
    canvases = find_canvases(folder).canvases
    config, is_new = write_project(folder, canvases, model='de"mo', keeps_sessions=keeps)
    assert is_new
    written = json.loads(config.read_text())
    module = ast.parse((folder / MODULE).read_text("utf-8"))
    names = {target.id for line in module.body if isinstance(line, ast.Assign) for target in line.targets}  # type: ignore[attr-defined]
    assert {path["path"].partition(":")[2] for path in written["graphs"].values()} <= names
    assert ("checkpointer" in written) == keeps
    assert not write_project(folder, canvases, model='de"mo', keeps_sessions=keeps)[1]
    config.write_text(json.dumps({**written, "env": {"A": "1"}}))
    write_project(folder, canvases[:1], keeps_sessions=keeps)
    assert json.loads(config.read_text())["env"] == {"A": "1"}, "what somebody has added stays"
    assert len(json.loads(config.read_text())["graphs"]) == 1


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        (CONFIG, '{"graphs": {"mine": "./mine.py:graph"}}', "graphs of your own"),
        (CONFIG, "{", "no JSON"),
        (MODULE, "print()", "not ours to write"),
    ],
)
def test_what_others_have_written_is_left_alone(folder: Path, name: str, text: str, problem: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(SettingsError, match=problem):
        write_project(folder, find_canvases(folder).canvases)
    assert (folder / name).read_text() == text


def test_nothing_to_serve(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="There is no canvas in"):
        find_canvases(tmp_path)
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(SettingsError, match="1 files are none"):
        find_canvases(tmp_path)
    with pytest.raises(CompileError):
        find_canvases(tmp_path / "a.json")


def test_canvases_that_come_or_go_or_are_mended_are_seen(folder: Path) -> None:
    watched = Watched(folder, find_canvases(folder))
    (folder / "a b.json").write_text(LOOP.read_text() + " ")
    assert not watched.have_changed(), "its factory reads it anew"
    (folder / "none.json").write_text(LOOP.read_text())
    assert watched.have_changed()
    watched.look(find_canvases(folder))
    assert not watched.have_changed()
    (folder / "2nd.json").unlink()
    assert watched.have_changed()
