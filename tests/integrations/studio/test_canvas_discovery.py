import os
import shutil
from pathlib import Path

import pytest

from ragflow_lg.base.errors import CompileError, SettingsError
from ragflow_lg.integrations.studio.canvas_discovery import CanvasWatcher, find_canvases
from tests.harness.studio import ROOT

LOOP = ROOT / "examples" / "loop.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a b.json", "2nd.json"):
        shutil.copy(LOOP, tmp_path / name)
    (tmp_path / "none.json").write_text("[]")
    return tmp_path


@pytest.mark.parametrize(
    ("files", "graphs"),
    [
        (["2nd", "表", "A b"], ["canvas_2nd", "a_b", "canvas_8868"]),
        (["a b", "a-b"], ["a_b_c8687a", "a_b_d44362"]),
        (["a b", "a-b", "a_b"], ["a_b_c8687a", "a_b_d44362", "a_b"]),
        (["class", "canvas_class", "canvas_factory"], ["canvas_class", "canvas_canvas_factory", "canvas_class_088911"]),
        (["langgraph", "open_sessions"], ["canvas_open_sessions"]),
    ],
)
def test_every_canvas_gets_a_unique_name(tmp_path: Path, files: list[str], graphs: list[str]) -> None:
    for name in files:
        shutil.copy(LOOP, tmp_path / f"{name}.json")
    assert [canvas.graph for canvas in find_canvases(tmp_path).canvases] == graphs


def test_invalid_files_are_skipped(folder: Path) -> None:
    os.mkfifo(folder / "pipe.json")  # opening it would block
    (folder / "nowhere.json").symlink_to(folder / "nothing")
    (folder / "folder.json").mkdir()
    shutil.copy(LOOP, os.fsdecode(os.fsencode(folder) + b"/\xff.json"))
    project = find_canvases(folder)
    assert [canvas.graph for canvas in project.canvases] == ["canvas_2nd", "a_b"]
    reasons = {os.fsencode(file.name): reason for file, reason in project.skipped.items()}
    assert set(reasons) == {b"none.json", b"pipe.json", b"nowhere.json", b"folder.json", b"\xff.json"}
    assert "not a regular file" in reasons[b"pipe.json"]
    assert "not UTF-8" in reasons[b"\xff.json"]
    assert not CanvasWatcher(folder, project).has_changed()


def test_a_folder_without_canvases_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="There is no canvas in"):
        find_canvases(tmp_path)
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(SettingsError, match=r"(?s)a\.json: .*document-shape"):
        find_canvases(tmp_path)
    with pytest.raises(CompileError):
        find_canvases(tmp_path / "a.json")


def test_new_removed_and_corrected_canvases_are_noticed(folder: Path) -> None:
    watcher = CanvasWatcher(folder, find_canvases(folder))
    (folder / "a b.json").write_text(LOOP.read_text() + " ")
    assert not watcher.has_changed(), "its factory reads it again"
    (folder / "none.json").write_text(LOOP.read_text())
    assert watcher.has_changed()
    watcher.update(find_canvases(folder))
    assert not watcher.has_changed()
    (folder / "2nd.json").unlink()
    assert watcher.has_changed()
    watcher.update(None)
    assert not watcher.has_changed(), "the change was reported before"
