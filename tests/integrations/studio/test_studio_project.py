import json
import os
import pickle
import runpy
import shutil
from pathlib import Path

import pytest

from ragflow_lg.base.errors import CompileError, SettingsError
from ragflow_lg.integrations.studio.canvas_discovery import Canvas, CanvasWatcher, find_canvases
from ragflow_lg.integrations.studio.development_server import NAME, prepare_state_folder
from ragflow_lg.integrations.studio.studio_project import CONFIG, MODULE, write_project
from tests.harness.rows import each_row
from tests.harness.studio import ROOT
from tests.server.cli.command import call

LOOP = ROOT / "examples" / "loop.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a b.json", "class.json", "表 😀.json", "canvas_factory.json"):
        shutil.copy(LOOP, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("uses_store", [True, False])
async def test_both_files_are_written_and_only_when_they_change(folder: Path, uses_store: bool) -> None:
    canvases = find_canvases(folder).canvases
    config, is_new = write_project(folder, canvases, model='de"mo', uses_store=uses_store)
    assert is_new
    written = json.loads(config.read_text())
    module = runpy.run_path(str(folder / MODULE))
    factories = [module[path["path"].partition(":")[2]] for path in written["graphs"].values()]
    assert len(factories) == len(canvases)
    for factory in factories:
        assert (await factory()).name
    assert [name in written for name in ("checkpointer", "store")] == [uses_store] * 2
    assert not write_project(folder, canvases, model='de"mo', uses_store=uses_store)[1]
    added = {"env": {"A": "1"}, "checkpointer": {"path": "./mine.py:saver"}, "store": {"path": "./mine.py:store"}}
    config.write_text(json.dumps({**written, **added}))
    write_project(folder, canvases[:1], uses_store=uses_store)
    assert added.items() <= json.loads(config.read_text()).items(), "entries of a user are preserved"
    assert len(json.loads(config.read_text())["graphs"]) == 1


async def test_files_in_another_folder_find_their_canvas_after_both_have_moved(tmp_path: Path) -> None:
    first = tmp_path / "first"
    for name in ("canvases", "app"):
        (first / name).mkdir(parents=True)
    shutil.copy(LOOP, first / "canvases")
    write_project(first / "app", find_canvases(first / "canvases").canvases)
    module = runpy.run_path(str(first.rename(tmp_path / "second") / "app" / MODULE))
    assert (await module["loop"]()).name


@each_row(
    ("name", "text", "problem"),
    [
        (CONFIG, '{"graphs": {"mine": "./mine.py:graph"}}', "was not written by this command"),
        (CONFIG, '{"graphs": {}, "store": {}}', "was not written by this command"),
        (CONFIG, '{"graphs": ["mine"]}', "was not written by this command"),
        (CONFIG, "[1]", "was not written by this command"),
        (CONFIG, "{", "not valid JSON"),
        (MODULE, "print()", "was not written by this command"),
    ],
)
def test_files_of_users_are_not_overwritten(folder: Path, name: str, text: str, problem: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(SettingsError, match=problem):
        write_project(folder, find_canvases(folder).canvases)
    assert (folder / name).read_text() == text
    (folder / name).unlink()


def test_a_file_is_written_atomically(folder: Path) -> None:
    canvases = find_canvases(folder).canvases
    config, _ = write_project(folder, canvases)
    before = config.read_text()
    with pytest.raises(SettingsError, match="cannot be written"):
        write_project(folder, [*canvases, Canvas(folder / "x.json", "x", "\udcff")])
    assert config.read_text() == before
    assert {file.name for file in folder.iterdir() if file.suffix != ".json"} == {MODULE}


@pytest.fixture
def discovered(tmp_path: Path) -> Path:
    for name in ("a b.json", "2nd.json"):
        shutil.copy(LOOP, tmp_path / name)
    (tmp_path / "none.json").write_text("[]")
    return tmp_path


@each_row(
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
    folder = tmp_path / files[-1]
    folder.mkdir()
    for name in files:
        shutil.copy(LOOP, folder / f"{name}.json")
    assert [canvas.graph for canvas in find_canvases(folder).canvases] == graphs


def test_invalid_files_are_skipped(discovered: Path) -> None:
    os.mkfifo(discovered / "pipe.json")  # opening it would block
    (discovered / "nowhere.json").symlink_to(discovered / "nothing")
    (discovered / "folder.json").mkdir()
    shutil.copy(LOOP, os.fsdecode(os.fsencode(discovered) + b"/\xff.json"))
    project = find_canvases(discovered)
    assert [canvas.graph for canvas in project.canvases] == ["canvas_2nd", "a_b"]
    reasons = {os.fsencode(file.name): reason for file, reason in project.skipped.items()}
    assert set(reasons) == {b"none.json", b"pipe.json", b"nowhere.json", b"folder.json", b"\xff.json"}
    assert "not a regular file" in reasons[b"pipe.json"]
    assert "not UTF-8" in reasons[b"\xff.json"]
    assert not CanvasWatcher(discovered, project).has_changed()


def test_a_folder_without_canvases_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="There is no canvas in"):
        find_canvases(tmp_path)
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(SettingsError, match=r"(?s)a\.json: .*document-shape"):
        find_canvases(tmp_path)
    with pytest.raises(CompileError):
        find_canvases(tmp_path / "a.json")


class Touch:
    """Leaves a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


def test_other_folders_are_refused(tmp_path: Path) -> None:
    own, foreign, linked, copied = (tmp_path / name for name in ("own", "foreign", "linked", "copied"))
    for folder in (own, foreign / NAME, linked):
        folder.mkdir(parents=True)
    prepare_state_folder(own)
    assert (own / NAME).stat().st_mode & 0o777 == 0o700
    prepare_state_folder(own)  # it was created here
    (linked / NAME).symlink_to(own / NAME)
    shutil.copytree(own, copied)
    for folder in (foreign, linked, copied):
        with pytest.raises(SettingsError, match="was not created by"):
            prepare_state_folder(folder)


def test_prepared_pickle_files_are_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples" / "loop.json", tmp_path)
    (tmp_path / NAME).mkdir()
    for name in (".langgraph_ops.pckl", ".langgraph_checkpoint.1.pckl", "store.pckl"):
        (tmp_path / NAME / name).write_bytes(pickle.dumps(Touch(tmp_path / "loaded")))
    done = call("studio", ".", "--model", "demo")
    assert (done.returncode, "was not created by" in done.stderr) == (2, True)
    assert not (tmp_path / "loaded").exists()
