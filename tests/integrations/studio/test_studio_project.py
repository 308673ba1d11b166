import json
import runpy
import shutil
from pathlib import Path

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.integrations.studio.canvas_discovery import Canvas, find_canvases
from ragflow_lg.integrations.studio.studio_project import CONFIG, MODULE, write_project
from tests.harness.studio import ROOT

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


@pytest.mark.parametrize(
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


def test_a_file_is_written_atomically(folder: Path) -> None:
    canvases = find_canvases(folder).canvases
    config, _ = write_project(folder, canvases)
    before = config.read_text()
    with pytest.raises(SettingsError, match="cannot be written"):
        write_project(folder, [*canvases, Canvas(folder / "x.json", "x", "\udcff")])
    assert config.read_text() == before
    assert {file.name for file in folder.iterdir() if file.suffix != ".json"} == {MODULE}
