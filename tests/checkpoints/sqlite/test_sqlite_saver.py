import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.sqlite.sqlite_file import open_sqlite
from ragflow_lg.checkpoints.sqlite.sqlite_saver import sqlite_saver

PLACE: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


async def test_a_full_disk_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "s.db") as file:
        saver = await sqlite_saver(file)
        first = await saver.aput(PLACE, empty_checkpoint(), {"source": "loop", "step": 1}, {})
        await file.rows("PRAGMA max_page_count = 30")
        values: Any = {**empty_checkpoint(), "channel_values": {"outputs": {"a": "x" * 300_000}}}
        with pytest.raises(CheckpointError, match="full"):
            await saver.aput(PLACE, values, {"source": "loop", "step": 2}, {})
        await file.rows("PRAGMA max_page_count = 100000")
        found = await saver.aget_tuple(PLACE)
        assert found is not None
        assert found.config["configurable"]["checkpoint_id"] == first["configurable"]["checkpoint_id"]  # pyright: ignore[reportTypedDictNotRequiredAccess]
        await saver.aput(PLACE, values, {"source": "loop", "step": 2}, {})


async def test_other_programs_leave_the_log_of_a_live_one(tmp_path: Path) -> None:
    """Who closes a file in this process takes the locks of its connections, and others then clear their log away."""
    path = tmp_path / "s.db"
    for _ in range(2):  # new at first, then there already
        async with open_store(f"sqlite:///{path}", SystemClock()) as store:
            await store.saver.aput(PLACE, empty_checkpoint(), {"source": "loop", "step": 1}, {})
            log = Path(f"{path}-wal")
            before = log.stat().st_ino
            script = (
                "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); print(c.execute('SELECT count(*) FROM runs')"
            )
            script += ".fetchone()); c.close()"
            subprocess.run([sys.executable, "-c", script, str(path)], check=True, stdout=subprocess.DEVNULL)
            assert log.stat().st_ino == before


async def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with open_sqlite(path) as file:
        saver = await sqlite_saver(file)
        await saver.aput(PLACE, empty_checkpoint(), {"source": "loop", "step": 1}, {})
        await file.rows("DROP TABLE checkpoints")
        with pytest.raises(CheckpointError, match="cannot be read"):
            await saver.aget_tuple(PLACE)


async def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE checkpoints (colour TEXT)")
    with pytest.raises(CheckpointError, match="not a session store"):
        async with open_sqlite(path) as file:
            await sqlite_saver(file)


async def test_a_session_that_is_deleted_as_soon_as_it_is_begun_is_told(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "s.db") as file:
        saver = await sqlite_saver(file)
        delete = "DELETE FROM blobs WHERE thread_id = NEW.thread_id"
        await file.rows(f"CREATE TRIGGER other AFTER INSERT ON blobs WHEN NEW.hash = 'epoch' BEGIN {delete}; END")
        with pytest.raises(CheckpointError, match="keeps deleting it"):
            await saver.aput(PLACE, empty_checkpoint(), {"source": "loop", "step": 1}, {})


@pytest.mark.parametrize("mark", ["9999999999999999", "x'ff'", "'text'", "x''"])
async def test_a_damaged_mark_of_a_session_is_told(tmp_path: Path, mark: str) -> None:
    async with open_sqlite(tmp_path / "s.db") as file:
        saver = await sqlite_saver(file)
        await file.rows(f"INSERT INTO blobs VALUES ('t', 'epoch', {mark})")
        with pytest.raises(CheckpointError, match="its epoch is damaged"):
            await saver.aput(PLACE, empty_checkpoint(), {"source": "loop", "step": 1}, {})
