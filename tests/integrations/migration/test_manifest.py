import json
import os
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.integrations.migration.folder import PulledFolder, read_manifest
from tests.harness.rows import each_row

HASH = "0" * 64


def agent(**fields: Any) -> dict[str, Any]:
    return {"agents": {"a1": {"file": "agents/a.json", "title": "A", "hash": HASH, **fields}}}


@each_row(
    "fields",
    [
        *(agent(file=file) for file in ("../../etc/passwd", "/etc/passwd", "agents/../../x.json", "agents\\x.json")),
        *(agent(file="agents/x.json\n"), agent(hash="abc"), agent(title="x" * 300), agent(update_ms=2**70)),
        agent(surprise=1),
        agent(sessions={"../x": {"file": "sessions/a/x.json", "hash": HASH}}),
        agent(sessions={"x": {"file": "sessions/a/../../x.json", "hash": HASH}}),
        agent(versions={"x": {"file": "versions/a/x.txt", "title": "", "hash": HASH}}),
        {"agents": {"a/b": agent()["agents"]["a1"]}},
        {"agents": {"a1": agent()["agents"]["a1"], "a2": agent()["agents"]["a1"]}},
        *({"agents": []}, {"key_env": "A B"}, {"format": "something else"}, {"version": 2}, {"version": "1"}),
    ],
)
def test_a_damaged_manifest_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"ragflow\.json"):
        read_manifest(json.dumps({"format": "ragflow-lg pull", "version": 1, **fields}).encode())


@each_row("content", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"7", b" " * (33 * 1024 * 1024)])
def test_what_is_no_manifest_is_refused(content: bytes) -> None:
    with pytest.raises(SettingsError, match=r"ragflow\.json"):
        read_manifest(content)


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
