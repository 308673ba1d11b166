"""What of a run is stored, and when."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.ids import session_of_thread, thread_of_session
from ragflow_lg.checkpoints import open_store
from tests.fakes.regions import node, out, play_run, runner_of, text
from tests.stores import OpenStore

SESSION = session_of_thread(thread_of_session("s"))
NODES = {"t": text(["out"], "x"), **out("text")}


class FailingPut:
    """An ``aput`` that fails for one checkpoint, however often it is tried."""

    def __init__(self, function: Callable[..., Awaitable[Any]], fails_at: int) -> None:
        self.ids: list[str] = []
        self._function = function
        self._fails_at = fails_at

    @property
    def has_failed(self) -> bool:
        """Whether there was such a checkpoint."""
        return len(self.ids) >= self._fails_at

    async def __call__(self, config: Any, checkpoint: Any, *more: Any) -> Any:
        if checkpoint["id"] not in self.ids:
            self.ids.append(checkpoint["id"])
        if self.ids.index(checkpoint["id"]) + 1 == self._fails_at:
            raise CheckpointError("disk full")
        return await self._function(config, checkpoint, *more)


FAILS = {"t": node("ListOperations", {"query": "sys.query"}, ["out"]), **out("text")}


@pytest.mark.parametrize(
    ("nodes", "status", "last"), [(NODES, "succeeded", "workflow_finished"), (FAILS, "failed", "node_finished")]
)
async def test_a_turn_continues_to_its_end_wherever_storing_it_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, nodes: Any, status: str, last: str
) -> None:
    """Before the last checkpoint, the closing node's result is stored: the node does not run again."""
    interruptions = 0
    for fails_at in range(2, 10):  # before the second checkpoint, no turn has begun
        async with open_store("memory://") as store:
            runner = runner_of(nodes, store=store)
            put = FailingPut(store.saver.aput, fails_at)
            monkeypatch.setattr(store.saver, "aput", put)
            with suppress(CheckpointError):
                await play_run(runner.start("s", {"query": "q"}))
            if not put.has_failed:
                break  # the turn has fewer checkpoints
            interruptions += 1
            run = runner.continue_("s")
            events = [event.event async for event in run]
            assert (run.status, events[-1]) == (status, last), fails_at
    assert interruptions >= 3


async def test_the_end_of_a_turn_is_stored_before_its_last_event(reopen: OpenStore) -> None:
    async with reopen() as store, reopen() as other:
        run = runner_of(NODES, store=store).start("s", {"query": "q"})
        async for event in run:
            if event.event == "workflow_finished":
                records = [record async for record in other.runs.of_session("s")]
                assert [(record.status, record.checkpoint != "") for record in records] == [("succeeded", True)]
                assert await other.node_logs.get(run.record.run_id) is not None
                assert await other.leases.holder(SESSION) == ""


async def test_a_turn_whose_end_cannot_be_stored_has_failed(reopen: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    async with reopen() as store:
        runner = runner_of(NODES, store=store)
        run = runner.start("s", {"query": "q"})
        is_shown = False

        async def put(*arguments: Any) -> Any:
            if is_shown:
                raise CheckpointError("disk full")
            return await original(*arguments)

        async def play() -> None:
            nonlocal is_shown
            async for event in run:
                if event.event == "workflow_started":
                    await runner.state("s")  # what waits in memory is stored for a reader
                is_shown = is_shown or event.event == "message_end"
                assert event.event != "workflow_finished"

        original = store.saver.aput
        monkeypatch.setattr(store.saver, "aput", put)
        with pytest.raises(CheckpointError, match="disk full"):
            await play()
        records = [(record.status, record.reason) async for record in store.runs.of_session("s")]
        assert (run.status, records) == ("failed", [("failed", "disk full")])
        assert await store.leases.holder(SESSION) == ""
        monkeypatch.undo()
        continued = runner_of(NODES, store=store).continue_("s")
        await play_run(continued)
        assert continued.status == "succeeded"
        assert len((await runner.state("s"))["history"]) == 2


async def test_a_result_is_stored_after_its_events_are_published(reopen: OpenStore) -> None:
    async with reopen() as store, reopen() as other:
        run = runner_of(NODES, store=store).start("s", {"query": "q"})
        is_shown, is_open = asyncio.Event(), asyncio.Event()
        seen: list[str] = []

        async def read() -> None:
            async for batch in run.batches(publishes=True):
                seen.extend(event.event for event in batch)
                if "node_finished" in seen:
                    is_shown.set()
                    await is_open.wait()

        reading = asyncio.create_task(read())
        viewer = runner_of(NODES, store=other)
        before: list[Any] = []
        async with asyncio.timeout(60):
            await is_shown.wait()
            while not before:  # the beginning is stored by a timer
                await asyncio.sleep(0.05)
                before = [step.next async for step in viewer.history("s")]
        is_open.set()
        await reading
        assert before[0] == ("begin",)
        assert (run.status, seen[-1]) == ("succeeded", "workflow_finished")
        assert (await anext(viewer.history("s"))).next == ()


class ProcessDeath(BaseException):
    """Ends a run as the end of the process would: nothing handles it."""
