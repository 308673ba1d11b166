import subprocess
import sys
from pathlib import Path

import pytest

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.sql.sql_tables import SqlTables
from ragflow_lg.checkpoints.sql.sqlite_file import open_sqlite
from ragflow_lg.checkpoints.steps.saver import CanvasSaver
from tests.stores import checkpoint_config, checkpoint_id, put_checkpoint

PLACE = checkpoint_config("t")


async def test_a_full_disk_is_reported_and_nothing_is_lost(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path / "s.db") as file:
        saver = CanvasSaver(SqlTables(file))
        first = await put_checkpoint(saver, PLACE)
        await file.read("PRAGMA max_page_count = 30")
        values = {"outputs": {"a": "x" * 300_000}}
        with pytest.raises(CheckpointError, match="full"):
            await put_checkpoint(saver, PLACE, values)
        await file.read("PRAGMA max_page_count = 100000")
        checkpoint = await saver.aget_tuple(PLACE)
        assert checkpoint is not None
        assert checkpoint_id(checkpoint.config) == checkpoint_id(first)
        await put_checkpoint(saver, PLACE, values)


async def test_another_program_does_not_delete_the_log_of_an_open_store(tmp_path: Path) -> None:
    """Closing any handle of a file drops this process's locks on it; other programs then delete the log."""
    path = tmp_path / "s.db"
    for _ in range(2):  # a new file, then an existing one
        async with open_store(f"sqlite:///{path}") as store:
            await put_checkpoint(store.saver, PLACE)
            log = Path(f"{path}-wal")
            before = log.stat().st_ino
            script = (
                "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); print(c.execute('SELECT count(*) FROM runs')"
            )
            script += ".fetchone()); c.close()"
            subprocess.run([sys.executable, "-c", script, str(path)], check=True, stdout=subprocess.DEVNULL)
            assert log.stat().st_ino == before


async def test_a_damaged_page_is_reported_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with open_sqlite(path) as file:
        saver = CanvasSaver(SqlTables(file))
        await put_checkpoint(saver, PLACE)
        (row,) = await file.read("SELECT rootpage FROM sqlite_master WHERE name = 'session_checkpoints'")
    content = bytearray(path.read_bytes())
    content[(row[0] - 1) * 4096 : row[0] * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"damaged .*\.recover|`ragflow-lg doctor` shows how"):
        async with open_sqlite(path) as file:
            await CanvasSaver(SqlTables(file)).aget_tuple(PLACE)
