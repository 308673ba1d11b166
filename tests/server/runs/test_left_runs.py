"""A server that starts again continues the runs that its earlier process has left, unless somebody has stopped them."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, patch

import pytest
from msgspec import structs
from pydantic import SecretStr

from ragflow_lg.base.errors import StreamError
from ragflow_lg.server.database.session_repository import RunRepository
from ragflow_lg.server.database.tables import RunRow
from ragflow_lg.server.runs.left_runs import continue_left_runs, find_left_runs
from ragflow_lg.server.runs.run_player import RunPlayer
from ragflow_lg.services.chat import Usage
from tests.fakes.services import Reply
from tests.server.http.app_server import AppServer, start_app
from tests.server.replicas import TWO_MESSAGES
from tests.server.waiting import wait_while


@asynccontextmanager
async def left_run(folder: Path) -> AsyncGenerator[tuple[AppServer, RunRow]]:
    """Start a server whose earlier process was stopped while a model answered."""
    options: dict[str, Any] = {
        "checkpoints": f"sqlite:///{folder}/sessions.db",
        "database": SecretStr(f"sqlite:///{folder}/server.db"),
    }
    async with start_app(
        folder, [Reply("first", usage=Usage(7, 3, 1)), Reply("never", hangs=True)], **options
    ) as server:
        agent_id = await server.agent(TWO_MESSAGES)
        session = await server.session(agent_id)
        asking = asyncio.create_task(server.ask(agent_id, session_id=session))
        await wait_while(lambda: not server.model.is_hanging)
        await server.app_state.run_manager.drain(0)
        await asking
    async with start_app(folder, [Reply("second")], **options) as server:
        row = await RunRepository(server.app_state.database, server.tenant).newest(session)
        assert row is not None
        assert row.status == "drained"
        yield server, row


async def continue_it(server: AppServer, row: RunRow) -> str:
    player = RunPlayer(server.app_state, server.turns)
    await continue_left_runs(server.app_state, player, await find_left_runs(server.app_state, player))
    return (await server.turns.playing.result("tenant", row.id))[0]


async def test_a_left_run_goes_on_as_what_it_was(tmp_path: Path) -> None:
    """Its record lost its beginning, its tenant and the run that it repeats."""
    async with left_run(tmp_path) as (server, row):
        runs = server.app_state.store.runs
        record = await runs.get(row.id)
        assert record is not None
        await runs.put(structs.replace(record, parent_run="parent", tenant="tenant", started_ms=5))
        assert await continue_it(server, row) == "succeeded"
        record = await runs.get(row.id)
        assert record is not None
        assert (record.parent_run, record.tenant, record.started_ms) == ("parent", "tenant", 5)
        assert len(server.model.requests) == 1


async def test_a_request_that_is_repeated_after_a_restart_follows_the_left_run(tmp_path: Path) -> None:
    """It was refused, or was faster than the left run and played the turn again."""
    async with left_run(tmp_path) as (server, row):
        agent_id, session = row.agent_id, row.session_id
        player = RunPlayer(server.app_state, server.turns)
        rows = await find_left_runs(server.app_state, player)
        repeating = asyncio.create_task(server.ask(agent_id, session_id=session))
        await asyncio.sleep(0.1)
        await continue_left_runs(server.app_state, player, rows)
        assert (await repeating)["data"]["message_id"] == row.id
        runs, _ = await RunRepository(server.app_state.database, "tenant").find(agent_id, session, 1, 10)
        assert ([run.id for run in runs], len(server.model.requests)) == ([row.id], 1)


@pytest.mark.parametrize("how", ["session", "client"])
async def test_a_left_run_that_was_cancelled_does_not_go_on(tmp_path: Path, how: str) -> None:
    """Its user cancelled the session before the server went on, or its process died when it had cancelled the run."""
    async with left_run(tmp_path) as (server, row):
        if how == "session":
            await server.turns.playing.cancel_session(row.session_id, "tenant")
        else:
            record = await server.app_state.store.runs.get(row.id)
            assert record is not None
            await server.app_state.store.runs.put(structs.replace(record, status="cancelled"))
            async with server.app_state.database.writing() as db:
                (await db.get_one(RunRow, row.id)).status = "running"
        assert await continue_it(server, row) == "cancelled"
        assert not server.model.requests
        assert (await server.run_row(row.id)).prompt_tokens == row.prompt_tokens > 0


async def test_a_request_is_not_answered_by_a_left_run_that_was_stopped(tmp_path: Path) -> None:
    async with left_run(tmp_path) as (server, row):
        await find_left_runs(server.app_state, RunPlayer(server.app_state, server.turns))
        assert await server.turns.playing.cancel("tenant", row.id)
        asked = await server.ask(row.agent_id, session_id=row.session_id)
        assert asked["data"]["message_id"] != row.id


@pytest.mark.parametrize("method", ["announce", "give_up"])
async def test_a_damaged_left_run_does_not_keep_others_from_going_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    async with left_run(tmp_path) as (server, row):
        damaged = RunRow(
            id="damaged", agent_id=row.agent_id, version_id="", session_id=row.session_id, status="drained"
        )
        damaged.start_ms = row.start_ms - 1
        await RunRepository(server.app_state.database, "tenant").add(damaged)
        player = RunPlayer(server.app_state, server.turns)
        act = getattr(player, method)

        async def fail(row: RunRow) -> Any:
            if row.id == "damaged":
                raise ValueError("What?")
            return await act(row)

        monkeypatch.setattr(player, method, fail)
        rows = await find_left_runs(server.app_state, player)
        await continue_left_runs(server.app_state, player, rows if method == "announce" else [damaged, row])
        assert (await server.turns.playing.result("tenant", row.id))[0] == "succeeded"
        assert "run damaged is not continued" in caplog.messages


async def test_a_left_run_that_fails_unexpectedly_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It ended the continuation of all others."""
    monkeypatch.setattr(RunPlayer, "can_restart", AsyncMock(side_effect=ValueError("What?")))
    async with left_run(tmp_path) as (server, row):
        assert await continue_it(server, row) == "drained"
        assert f"run {row.id} is not continued" in caplog.messages


@pytest.mark.parametrize("step", ["runner", "events"])
async def test_the_stream_of_a_left_run_that_cannot_go_on_ends(tmp_path: Path, step: str) -> None:
    async with left_run(tmp_path) as (server, row):
        place, name = (server.turns, "runner") if step == "runner" else (server.app_state.run_manager, "events_so_far")
        with patch.object(place, name, AsyncMock(side_effect=StreamError("It is away."))):
            assert await continue_it(server, row) == "drained"
        end = await server.app_state.run_manager.read_end(row.id)
        assert end is not None
        assert end.is_interruption
        asked = await server.ask(row.agent_id, session_id=row.session_id)
        assert asked["data"]["message_id"] != row.id
