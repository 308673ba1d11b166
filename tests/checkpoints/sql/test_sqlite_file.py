import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.sql.sql_database import Rows, Statement
from ragflow_lg.checkpoints.sql.sqlite_file import open_sqlite


async def test_only_the_owner_can_read_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "s.db"
    async with open_sqlite(path) as file:
        assert await file.read("SELECT count(*) FROM runs") == [(0,)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_no_other_process_writes_between_the_read_and_the_write_of_a_transaction(tmp_path: Path) -> None:
    def is_locked(_: Rows) -> str:
        other = sqlite3.connect(tmp_path / "s.db", timeout=0)
        with closing(other), pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("DELETE FROM runs")
        return ""

    async with open_sqlite(tmp_path / "s.db") as file:
        await file.commit("t", [Statement("SELECT * FROM runs", check=is_locked), Statement("DELETE FROM runs")])


async def test_other_files_and_folders_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("This is not a database." * 100)
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE runs (colour TEXT)")
    beneath = tmp_path / "text.db" / "s.db"
    for path, text in (
        (tmp_path / "text.db", "not a session store"),
        (tmp_path / "other.db", "not a session store"),
        (tmp_path, "is a folder"),
        (beneath, f"'{beneath}' cannot be opened: (Not a directory|File exists). Choose another path."),
    ):
        with pytest.raises(CheckpointError, match=text):
            async with open_sqlite(path):
                pass


@pytest.mark.parametrize("size", [50, 4096])
async def test_a_truncated_file_is_reported_with_advice(tmp_path: Path, size: int) -> None:
    path = tmp_path / "s.db"
    async with open_sqlite(path) as file:
        await file.read("SELECT 1")
    os.truncate(path, size)
    with pytest.raises(CheckpointError, match=r"is damaged: .* \.recover \| sqlite3 NEW\.db"):
        async with open_sqlite(path):
            pass


async def test_a_file_whose_header_is_overwritten_is_reported_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with open_sqlite(path) as file:
        await file.read("SELECT 1")
    path.write_bytes(b"x" * 100 + path.read_bytes()[100:])
    with pytest.raises(CheckpointError, match=r"not a session store: .*if it was a session store, restore a backup"):
        async with open_sqlite(path):
            pass
