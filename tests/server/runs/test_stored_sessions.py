from typing import Any

import pytest
from msgspec.structs import replace

from ragflow_lg.adapters.system_services import RandomIds, SystemClock
from ragflow_lg.base.errors import CheckpointError, ConflictError
from ragflow_lg.checkpoints import open_store
from ragflow_lg.runs.runner import Runner, abandon
from ragflow_lg.server.assembly.library import load_canvas
from ragflow_lg.server.runs.stored_sessions import (
    cancel_and_delete,
    fork_session,
    has_session,
    is_interrupted,
    newest_run,
)
from tests.fakes.services import fake_services
from tests.server.http.app_server import FORM


async def _play(runner: Runner, session: str) -> str:
    run = runner.start(session, {"query": "hi"})
    assert [event async for event in run]
    return run.envelope.message_id


async def test_a_waiting_session_is_forked_and_abandoned() -> None:
    canvas, clock, ids = load_canvas(FORM), SystemClock(), RandomIds()
    async with open_store("memory://") as store:
        runner = Runner(canvas, fake_services(ids=ids), store=store)
        assert (await has_session(store, "ada"), await newest_run(store, "ada")) == (False, None)
        run_id = await _play(runner, "ada")
        assert await has_session(store, "ada")
        options: Any = {"canvas_id": "agent", "clock": clock, "ids": ids}
        record = await fork_session(store, canvas, "ada", "eve", "", **options)
        assert (record.status, record.parent_run, record.name, record.canvas_id) == ("waiting", run_id, "eve", "agent")
        assert await newest_run(store, "eve") == record
        assert [pause.node for pause in await runner.pauses("eve")] == ["UserFillUp:0"]
        with pytest.raises(ConflictError):
            await fork_session(store, canvas, "ada", "eve", "", **options)
        with pytest.raises(CheckpointError):
            await fork_session(store, canvas, "ada", "bob", "nowhere", **options)
        await abandon(canvas, "eve", store, clock)
        assert (await runner.pauses("eve"), len(await runner.pauses("ada"))) == ([], 1)


async def test_a_running_record_without_a_lease_is_interrupted() -> None:
    async with open_store("memory://") as store:
        await _play(Runner(load_canvas(FORM), fake_services(), store=store), "ada")
        record = await newest_run(store, "ada")
        assert record is not None
        assert not await is_interrupted(store, record)
        running = replace(record, status="running")
        assert await is_interrupted(store, running)
        lease = await store.leases.acquire(record.session, lambda: None)
        assert not await is_interrupted(store, running)
        await lease.release()


async def test_a_session_that_stays_busy_is_not_deleted() -> None:
    async with open_store("memory://") as store:
        lease = await store.leases.acquire("s", lambda: None)
        with pytest.raises(ConflictError):
            await cancel_and_delete(store, "s", patience_s=0.15)
        await lease.release()
        await cancel_and_delete(store, "s")
