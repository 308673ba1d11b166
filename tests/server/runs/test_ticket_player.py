"""Runs that a worker cannot play. How they are played is tested with processes, in `test_run_worker`."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from pydantic import SecretStr

from ragflow_lg.base.errors import CompileError, RunAbandonedError, StreamError
from ragflow_lg.runs.wire.wire_events import Envelope
from ragflow_lg.server.database.session_repository import RunRepository
from ragflow_lg.server.database.tables import RunRow
from ragflow_lg.server.runs import ticket_player
from ragflow_lg.server.runs.ticket_player import TicketPlayer
from ragflow_lg.server.streaming.run_queue.run_order import RunOrder, encode_order
from tests.server.http.app_server import ECHO, AppServer, start_app
from tests.stores import fresh_prefix

RUN = "f" * 32


class Line:
    """The queue with one run."""

    def __init__(self, order: bytes) -> None:
        self.order: bytes | None = order
        self.sent: list[str] = []

    async def take(self, ticket: str) -> tuple[str, bytes] | None:
        return (RUN, self.order) if self.order is not None else None

    async def finish(self, run_id: str, ticket: str) -> None:
        self.order = None

    async def send(self, ticket: str) -> None:
        self.sent.append(ticket)


@asynccontextmanager
async def queued_run(
    folder: Path, redis_url: str, order: bytes | None = None
) -> AsyncGenerator[tuple[AppServer, Line, TicketPlayer]]:
    """Start a server whose database and journal contain a run that waits in the queue."""
    options: dict[str, Any] = {"sections": {"checkpoint_prefix": fresh_prefix()}, "journal": SecretStr(redis_url)}
    async with start_app(folder, **options) as server:
        agent_id = await server.agent(ECHO)
        session_id, database = await server.session(agent_id), server.app_state.database
        envelope = Envelope(RUN, 1, session_id, session_id)
        row = RunRow(id=RUN, agent_id=agent_id, version_id="v", session_id=session_id, start_ms=1, asked="hi")
        await RunRepository(database, "tenant").add(row)
        await server.app_state.run_manager.order(envelope, "tenant", "")
        line = Line(order or encode_order(RunOrder(envelope, "tenant", agent_id, "start", {"query": "hi"})))
        queue: Any = SimpleNamespace(line=line, send=line.send)
        yield server, line, TicketPlayer(server.app_state, queue, server.turns)


async def stored(server: AppServer) -> tuple[str, str]:
    row = await RunRepository(server.app_state.database, "tenant").get(RUN)
    assert row is not None
    return row.status, row.error


async def test_an_order_that_nobody_can_read_is_left_to_others_and_then_refused(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticket_player, "PAUSE_S", 0.0)
    async with queued_run(tmp_path, redis_url, b'{"intent": "dream"}') as (server, line, player):
        for count in (1, 2):
            assert await player.play("ticket")
            assert line.sent == ["ticket"] * count
        assert await stored(server) == ("running", "")
        monkeypatch.setattr(ticket_player, "PATIENCE_S", 0.0)
        assert await player.play("ticket")
        assert (len(line.sent), line.order) == (2, None)
        status, error = await stored(server)
        assert (status, "Upgrade the workers" in error) == ("refused", True)
        with pytest.raises(RunAbandonedError, match="No worker can play the run"):
            async for _ in server.turns.follow(RUN):
                pass


async def test_an_order_that_waits_for_a_while_before_it_is_refused_is_not_repeated_at_once(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = AsyncMock()
    async with queued_run(tmp_path, redis_url, b"?") as (_, _, player):
        monkeypatch.setattr(ticket_player, "asyncio", SimpleNamespace(sleep=pauses))
        assert await player.play("ticket")
        pauses.assert_awaited_once_with(ticket_player.PAUSE_S)


async def test_a_failure_that_passes_never_ends_a_run(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticket_player, "PAUSE_S", 0.0)
    monkeypatch.setattr(ticket_player, "PATIENCE_S", 0.0)
    async with queued_run(tmp_path, redis_url) as (server, line, player):
        with monkeypatch.context() as failing:
            failing.setattr(server.turns, "runner", AsyncMock(side_effect=StreamError("Redis is away.")))
            assert await player.play("ticket")
        assert (line.sent, await stored(server)) == (["ticket"], ("running", ""))
        assert await player.play("ticket")
        assert (line.order, await stored(server)) == (None, ("succeeded", ""))


async def test_a_run_of_a_canvas_that_no_worker_can_compile_is_refused(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticket_player, "PAUSE_S", 0.0)
    async with queued_run(tmp_path, redis_url) as (server, line, player):
        error = AsyncMock(side_effect=CompileError([]))
        monkeypatch.setattr(server.turns, "runner", error)
        assert await player.play("ticket")
        assert (line.sent, await stored(server)) == (["ticket"], ("running", ""))
        monkeypatch.setattr(ticket_player, "PATIENCE_S", 0.0)
        assert await player.play("ticket")
        assert (line.order, (await stored(server))[0]) == (None, "refused")
