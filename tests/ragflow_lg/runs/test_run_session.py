"""Holding the session of a run: its lease, cancellation from elsewhere, and its record."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ragflow_lg.base.errors import CheckpointError, ConflictError
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.records.leases import this_process
from ragflow_lg.runs import run_session
from ragflow_lg.runs.runner import newest_run
from ragflow_lg.services.sessions import RunRecord, hold_lease
from tests.fakes.regions import out, play_run, runner_of, text
from tests.fakes.services import OneModel, fake_services
from tests.fakes.slow_model import STREAM, SlowModel, until_message
from tests.harness.redis_server import redis_server
from tests.stores import OpenStore, redis_client, redis_keys, stored_leases


async def test_another_process_can_cancel_a_run_and_the_turn_can_continue(reopen: OpenStore) -> None:
    model = SlowModel()
    async with reopen() as store, reopen() as other:
        runner = runner_of(STREAM, services=fake_services(models=OneModel(model)), store=store)
        run = runner.start("s", {"query": "q"})
        events = await until_message(run)
        await other.cancels.request("s")
        async with asyncio.timeout(60):
            rest = [event.event async for event in events]
        assert (run.status, rest[-1]) == ("cancelled", "workflow_finished")
        assert [r.status async for r in store.runs.of_session("s")] == ["cancelled"]
        model.is_released = True
        answer, node_events = await play_run(runner.continue_("s"))
        assert answer == "the rest"
        assert "+a" not in node_events
        assert model.stream_count == 2
        assert (await play_run(runner.start("s", {"query": "again"})))[0] == "the rest"


async def test_a_run_that_waits_for_its_session_is_cancelled_without_the_run_that_has_it(
    reopen_shared: OpenStore,
) -> None:
    """The request named the session: it stopped the other run, and was cleared with the next lease."""
    async with reopen_shared() as store, reopen_shared() as other:
        runner, stops = runner_of({"a": text([], "A")}, store=store, busy_s=60), list[str]()
        async with hold_lease(other.leases, "s"), other.cancels.watch("s", lambda: stops.append("s")):
            run = runner.start("s", {"query": "q"})
            waiting = asyncio.create_task(play_run(run))
            await asyncio.sleep(0.1)
            await other.cancels.request(run.envelope.message_id)
            await asyncio.sleep(0.2)
            assert stops == []
        await waiting
        assert run.status == "cancelled"


async def test_a_run_does_not_wait_for_each_command_of_a_store_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any) -> Any:
        raise CheckpointError("The session store failed: it cannot be reached.")

    async def wait_and_fail(*_: Any) -> Any:
        await may_fail.wait()
        await fail()

    may_fail = asyncio.Event()
    monkeypatch.setattr(run_session, "AWAY_S", 0.1)
    async with open_store("memory://") as store:
        run = runner_of({"a": text([], "A")}, store=store).start("s", {"query": "q"})
        monkeypatch.setattr(store.saver, "aput", fail)
        monkeypatch.setattr(type(store), "newest_checkpoint", wait_and_fail)
        with pytest.raises(CheckpointError, match="cannot be reached"):
            await asyncio.wait_for(play_run(run), 60)
        may_fail.set()
        await asyncio.wait(run_session._EXITING)  # pyright: ignore[reportPrivateUsage]
        assert run.status == "failed"


async def test_a_run_waits_for_the_lease_of_the_previous_turn(reopen_shared: OpenStore) -> None:
    async with reopen_shared() as store, reopen_shared() as other:
        runner = runner_of({"a": text([], "A")}, store=store, busy_s=60)
        async with hold_lease(other.leases, "s"):
            waiting = asyncio.create_task(play_run(runner.start("s", {"query": "q"})))
            await asyncio.sleep(0.1)
            assert not waiting.done()
        assert (await waiting)[1]


async def test_a_run_that_was_taken_over_does_not_change_its_record(reopen: OpenStore) -> None:
    async with reopen() as store:
        runner = runner_of(STREAM, services=fake_services(models=OneModel(SlowModel())), store=store)
        run = runner.start("s", {"query": "q"})
        events = await until_message(run)
        token = await stored_leases(store).table.take(run.record.session, this_process(), run.lease_token)
        assert isinstance(token, int)
        assert token > run.lease_token
        await store.runs.put(replace(run.record, status="succeeded"))
        run.cancel()
        assert [event.event async for event in events]
        assert [r.status async for r in store.runs.of_session("s")] == ["succeeded"]


class FullRuns:
    """Run records of a store that is full: no end of a run can be put."""

    def __init__(self, runs: Any) -> None:
        self._runs = runs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runs, name)

    async def put(self, record: RunRecord) -> None:
        if record.status != "running":
            raise CheckpointError("The session cannot be written: the store is full.")
        await self._runs.put(record)


async def test_a_session_is_free_although_the_end_of_its_run_cannot_be_stored(reopen_shared: OpenStore) -> None:
    async with reopen_shared() as store:
        full = replace(store, runs=FullRuns(store.runs))
        run = runner_of(out("{sys.query}"), store=full).start("anna", {"query": "q"})
        with pytest.raises(CheckpointError, match="full"):
            await play_run(run)
        assert await store.leases.holder("anna") == ""
        async with hold_lease(store.leases, "anna"):
            pass


async def test_a_second_runner_gets_a_conflict_and_the_first_one_continues(reopen: OpenStore) -> None:
    model = SlowModel()
    async with reopen() as store, reopen() as other:
        services = fake_services(models=OneModel(model))
        run = runner_of(STREAM, services=services, store=store).start("s", {"query": "q"})
        events = await until_message(run)
        second = runner_of(STREAM, services=services, store=other)
        with pytest.raises(ConflictError, match="already running"):
            await play_run(second.start("s", {"query": "mine"}))
        model.is_released = True
        assert [event.event async for event in events][-1] == "workflow_finished"
        assert run.status == "succeeded"
        assert [r.status async for r in store.runs.of_session("s")] == ["succeeded"]


async def test_a_runner_that_loses_its_lease_stops(reopen_shared: OpenStore) -> None:
    model = SlowModel()
    async with reopen_shared() as store:
        services = fake_services(models=OneModel(model))
        run = runner_of(STREAM, services=services, store=store).start("s", {"query": "q"})
        events = await until_message(run)
        run._session.lose()  # pyright: ignore[reportPrivateUsage] - as the lease calls it
        with pytest.raises(ConflictError, match="taken over this session"):
            [event async for event in events]
        assert [r.status async for r in store.runs.of_session("s")] == ["running"]


async def test_a_turn_whose_process_died_before_it_recorded_the_end_is_ended_by_continue() -> None:
    async with open_store("memory://") as store:
        runner = runner_of({"t": text(["out"], "x"), **out("text")}, store=store)
        for query in ("first", "second"):
            run = runner.start("s", {"query": query})
            answer, _ = await play_run(run)
        ended = await store.runs.get(run.envelope.message_id)
        assert ended is not None
        await store.runs.put(replace(ended, status="running", checkpoint="", ended_ms=0))
        continued = runner.continue_("s")
        events = [event.event async for event in continued]
        assert (events, continued.answer) == (["message", "message_end", "workflow_finished"], answer)
        assert continued.status == "succeeded"
        newest = await newest_run(store, "s")
        assert newest is not None
        assert newest.status == "succeeded"
        lost = replace(ended, run_id="f" * 32, status="running", checkpoint="", started_ms=newest.started_ms + 1)
        for _ in range(2):  # also if nothing was stored of a later one
            with pytest.raises(ConflictError, match="no unfinished turn"):
                await play_run(runner.continue_("s"))
            await store.runs.put(lost)


@pytest.mark.slow
async def test_a_turn_continues_after_a_restart_of_redis(tmp_path: Path) -> None:
    model = SlowModel()
    services = fake_services(models=OneModel(model))
    with redis_server(keep=tmp_path) as url:
        port = int(url.rpartition(":")[2])
        opening = open_store(url)
        store = await opening.__aenter__()
        run = runner_of(STREAM, services=services, store=store).start("s", {"query": "q"})
        events = await until_message(run)
    model.is_released = True
    async with asyncio.timeout(30):
        with pytest.raises(CheckpointError):
            [event async for event in events]
        with suppress(Exception):
            await opening.__aexit__(None, None, None)
    assert run.status == "failed"
    with redis_server(keep=tmp_path, port=port) as url:
        async with open_store(url) as store, asyncio.timeout(25):
            runner = runner_of(STREAM, services=services, store=store)
            async with redis_client(url) as client:  # the lease could not be released; it would expire in 30 s
                (lease,) = await redis_keys(client, "*active-session*")
                await client.delete(lease)
            answer, node_events = await play_run(runner.continue_("s"))
    assert answer == "the rest"
    assert "+a" not in node_events
