import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints import open_store
from tests.fakes.regions import node, out, play_run, runner_of, text
from tests.stores import OpenStore


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


async def test_the_state_is_stored_before_the_last_event(reopen: OpenStore) -> None:
    async with reopen() as store:
        runner = runner_of({"t": text(["out"], "x"), **out("text")}, store=store)
        async for event in runner.start("s", {"query": "q"}):
            if event.event == "workflow_finished":
                break
        state = await runner.state("s")
        assert [state["turn"]["status"], len(state["history"])] == ["succeeded", 2]


async def test_a_failing_store_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_store("memory://") as store:
        runner = runner_of(out("x"), store=store)
        monkeypatch.setattr(store.saver, "aput", FailingPut(store.saver.aput, 2))
        run = runner.start("s", {"query": "q"})
        with pytest.raises(CheckpointError):
            await play_run(run)
        records = [(r.status, r.reason, r.is_cancel_requested) async for r in store.runs.of_session("s")]
        assert (run.status, records) == ("failed", [("failed", "disk full", False)])


@pytest.mark.parametrize(
    ("component", "status", "last"),
    [
        (text(["out"], "x"), "succeeded", "workflow_finished"),
        (node("ListOperations", {"query": "sys.query"}, ["out"]), "failed", "node_finished"),
    ],
)
async def test_a_turn_continues_to_its_end_wherever_storing_it_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, component: Any, status: str, last: str
) -> None:
    """Before the last checkpoint, the closing node's result is stored: the node does not run again."""
    interruptions = 0
    for fails_at in range(2, 10):  # before the second checkpoint, no turn has begun
        async with open_store("memory://") as store:
            runner = runner_of({"t": component, **out("text")}, store=store)
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


async def test_a_result_is_stored_after_its_events_are_published(reopen: OpenStore) -> None:
    nodes = {"a": text(["m"], "A"), "m": node("Message", {"content": "{a@result}"})}
    async with reopen() as store, reopen() as other:
        runner = runner_of(nodes, store=store)
        run = runner.start("s", {"query": "q"})
        is_open = asyncio.Event()
        seen: list[str] = []

        async def read() -> None:
            async for batch in run.batches(publishes=True):
                seen.extend(event.event for event in batch)
                if "node_finished" in seen:
                    await is_open.wait()

        reading = asyncio.create_task(read())
        async with asyncio.timeout(10):
            while "node_finished" not in seen:
                await asyncio.sleep(0.01)
        viewer = runner_of(nodes, store=other)
        before: list[Any] = []
        async with asyncio.timeout(10):
            while not before:  # the beginning is stored by a timer
                await asyncio.sleep(0.1)
                before = [step.next async for step in viewer.history("s")]
        is_open.set()
        await reading
        assert before[0] == ("begin",)
        assert (run.status, seen[-1]) == ("succeeded", "workflow_finished")
        assert (await anext(viewer.history("s"))).next == ()
