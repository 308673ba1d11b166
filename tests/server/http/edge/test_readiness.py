import asyncio
import sqlite3
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from msgspec.structs import replace

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import CheckpointError, StreamError
from ragflow_lg.checkpoints import open_store
from ragflow_lg.server.http.edge import readiness
from ragflow_lg.server.http.edge.readiness import Readiness
from tests.server.http.app_server import start_app

READY = {"database": "ok", "checkpoints": "ok", "journal": "ok"}


def count_rows(path: Path) -> dict[str, int]:
    connection = sqlite3.connect(path)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    counts = {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}
    connection.close()
    return counts


async def test_writable_stores_are_ready_and_do_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "FRESH_S", 0.0)
    paths = tmp_path / "server.db", tmp_path / "sessions.db"
    async with start_app(tmp_path) as server, open_store(f"sqlite:///{paths[1]}", SystemClock()) as store:
        checks = Readiness(replace(server.app_state, store=store))
        assert await checks.check() == READY
        counts = [count_rows(path) for path in paths]
        for _ in range(5):
            assert await checks.check() == READY
        assert [count_rows(path) for path in paths] == counts


async def test_locked_stores_are_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "CHECK_S", 0.05)
    paths = tmp_path / "server.db", tmp_path / "sessions.db"
    async with start_app(tmp_path) as server, open_store(f"sqlite:///{paths[1]}", SystemClock()) as store:
        checks = Readiness(replace(server.app_state, store=store))
        writers = [sqlite3.connect(path, isolation_level=None) for path in paths]
        for writer in writers:
            writer.execute("BEGIN IMMEDIATE")
        assert await checks.check() == {**READY, "database": "timed out", "checkpoints": "timed out"}
        for writer in writers:
            writer.close()


async def test_concurrent_probes_share_one_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with start_app(tmp_path) as server:
        checks = Readiness(server.app_state)
        head = AsyncMock(side_effect=StreamError("Redis at geheim is gone."))
        monkeypatch.setattr(server.app_state.run_manager.journal, "head", head)
        monkeypatch.setattr(server.app_state.store.leases, "acquire", AsyncMock(side_effect=CheckpointError("geheim")))
        states = await asyncio.gather(*(checks.check() for _ in range(20)))
        assert states == [{"database": "ok", "checkpoints": "failed", "journal": "failed"}] * 20
        assert head.await_count == 1


async def test_a_store_that_another_replica_probes_is_ready(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        lease = await server.app_state.store.leases.acquire(readiness.PROBE_ID, lambda: None)
        assert await Readiness(server.app_state).check() == READY
        await lease.release()
