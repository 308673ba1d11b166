import asyncio
import os
import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.sqlite.sqlite_file import open_sqlite


async def test_only_the_owner_can_read_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "s.db"
    async with open_sqlite(path) as file:
        assert await file.rows("SELECT count(*) FROM runs") == [(0,)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("survives", [True, False])
async def test_only_a_file_that_survives_power_loss_waits_for_the_disk(tmp_path: Path, survives: bool) -> None:
    async with open_sqlite(tmp_path / "s.db", survives_power_loss=survives) as file:
        assert await file.rows("PRAGMA synchronous") == [(2 if survives else 1,)]


async def test_jobs_run_in_order_on_one_thread_and_never_interleave(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "s.db") as file:
        steps: list[tuple[int, int]] = []

        def work(number: int) -> None:
            for _ in range(3):
                steps.append((number, threading.get_ident()))

        await asyncio.gather(*(file.do(lambda number=number: work(number)) for number in range(10)))
        assert [number for number, _ in steps] == [number for number in range(10) for _ in range(3)]
        assert len({thread for _, thread in steps}) == 1


async def test_a_failed_statement_raises_and_the_next_one_works(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "s.db") as file:
        with pytest.raises(sqlite3.Error, match="no such table"):
            await file.rows("SELECT 1 FROM missing")
        assert await file.rows("SELECT 1") == [(1,)]


async def test_other_files_and_folders_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("This is not a database." * 100)
    beneath = tmp_path / "text.db" / "s.db"
    for path, text in (
        (tmp_path / "text.db", "not a session store"),
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
        await file.rows("SELECT 1")
    os.truncate(path, size)
    with pytest.raises(CheckpointError, match=r"is damaged: .* \.recover \| sqlite3 NEW\.db"):
        async with open_sqlite(path):
            pass


async def test_a_file_whose_header_is_overwritten_is_reported_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with open_sqlite(path) as file:
        await file.rows("SELECT 1")
    path.write_bytes(b"x" * 100 + path.read_bytes()[100:])
    with pytest.raises(CheckpointError, match=r"not a session store: .*if it was a session store, restore a backup"):
        async with open_sqlite(path):
            pass
