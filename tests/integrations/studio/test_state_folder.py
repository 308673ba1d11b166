import os
import pickle
import shutil
from pathlib import Path

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.integrations.studio.development_server import NAME, prepare_state_folder
from tests.server.cli.command import ROOT, call


class Touch:
    """Leaves a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


def test_a_folder_that_was_created_here_is_used_again(tmp_path: Path) -> None:
    prepare_state_folder(tmp_path)
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o700
    prepare_state_folder(tmp_path)


def test_other_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    with pytest.raises(SettingsError, match="was not created by"):
        prepare_state_folder(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    prepare_state_folder(other)
    shutil.rmtree(tmp_path / NAME)
    (tmp_path / NAME).symlink_to(other / NAME)
    with pytest.raises(SettingsError, match="was not created by"):
        prepare_state_folder(tmp_path)
    shutil.copytree(other, tmp_path / "copy")
    with pytest.raises(SettingsError, match="was not created by"):
        prepare_state_folder(tmp_path / "copy")


def test_prepared_pickle_files_are_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples" / "loop.json", tmp_path)
    (tmp_path / NAME).mkdir()
    for name in (".langgraph_ops.pckl", ".langgraph_checkpoint.1.pckl", "store.pckl"):
        (tmp_path / NAME / name).write_bytes(pickle.dumps(Touch(tmp_path / "loaded")))
    done = call("studio", ".", "--model", "demo")
    assert (done.returncode, "was not created by" in done.stderr) == (2, True)
    assert not (tmp_path / "loaded").exists()
