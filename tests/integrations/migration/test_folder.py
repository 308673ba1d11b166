import os
from pathlib import Path

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.integrations.migration.folder import PulledFolder


def test_files_are_replaced_at_once_and_private(tmp_path: Path) -> None:
    folder = PulledFolder(tmp_path / "new")
    assert folder.read("agents/a.json") is None
    folder.write("agents/a.json", b"one")
    folder.write("agents/a.json", b"two")
    assert folder.read("agents/a.json") == b"two"
    assert folder.agent_files() == ["agents/a.json"]
    assert [path.name for path in (tmp_path / "new" / "agents").iterdir()] == ["a.json"]
    assert os.stat(tmp_path / "new" / "agents" / "a.json").st_mode & 0o077 == 0


def test_symbolic_links_are_refused(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.json").write_text("{}")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "agents").symlink_to(tmp_path / "outside")
    folder = PulledFolder(tmp_path / "folder")
    with pytest.raises(SettingsError, match="symbolic link"):
        folder.write("agents/a.json", b"x")
    with pytest.raises(SettingsError, match="symbolic link"):
        folder.read("agents/a.json")
    assert (tmp_path / "outside" / "a.json").read_text() == "{}"


def test_large_files_and_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 11)
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(SettingsError, match="larger than 10 bytes"):
        PulledFolder(tmp_path).read("big", 10)
    with pytest.raises(SettingsError, match="not a file"):
        PulledFolder(tmp_path).read("folder.json")
