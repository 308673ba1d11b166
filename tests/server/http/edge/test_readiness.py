from __future__ import annotations

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

WELL = {"database": "ok", "checkpoints": "ok", "journal": "ok"}


def rows(path: Path) -> dict[str, int]:
    connection = sqlite3.connect(path)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    counts = {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}
    connection.close()
    return counts


async def test_what_can_be_written_is_well_and_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "FRESH_S", 0.0)
    paths = tmp_path / "server.db", tmp_path / "sessions.db"
    async with start_app(tmp_path) as server, open_store(f"sqlite:///{paths[1]}", SystemClock()) as store:
        asked = Readiness(replace(server.app_state, store=store))
        assert await asked.states() == WELL
        held = [rows(path) for path in paths]
        for _ in range(5):
            assert await asked.states() == WELL
        assert [rows(path) for path in paths] == held


async def test_what_can_only_be_read_is_not_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "CHECK_S", 0.05)
    paths = tmp_path / "server.db", tmp_path / "sessions.db"
    async with start_app(tmp_path) as server, open_store(f"sqlite:///{paths[1]}", SystemClock()) as store:
        asked = Readiness(replace(server.app_state, store=store))
        writers = [sqlite3.connect(path, isolation_level=None) for path in paths]
        for writer in writers:
            writer.execute("BEGIN IMMEDIATE")
        assert await asked.states() == {**WELL, "database": "timed out", "checkpoints": "timed out"}
        for writer in writers:
            writer.close()


async def test_who_asks_often_makes_no_work_and_sees_what_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start_app(tmp_path) as server:
        asked = Readiness(server.app_state)
        head = AsyncMock(side_effect=StreamError("Redis at geheim is gone."))
        monkeypatch.setattr(server.app_state.run_manager.journal, "head", head)
        monkeypatch.setattr(server.app_state.store.leases, "acquire", AsyncMock(side_effect=CheckpointError("geheim")))
        states = await asyncio.gather(*(asked.states() for _ in range(20)))
        assert states == [{"database": "ok", "checkpoints": "failed", "journal": "failed"}] * 20
        assert head.await_count == 1


async def test_a_store_that_another_replica_probes_just_now_is_well(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        held = await server.app_state.store.leases.acquire(readiness.PROBED, lambda: None)
        assert await Readiness(server.app_state).states() == WELL
        await held.release()
