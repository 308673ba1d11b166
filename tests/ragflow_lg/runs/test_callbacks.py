import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ragflow_lg.base.errors import ConflictError
from ragflow_lg.component.events import NodeFinished, NodeStarted
from ragflow_lg.runs.callbacks import CallbackLimits, RunCallbacks, RunInfo, RunSummary
from tests.fakes.canvas import node
from tests.fakes.regions import play_run, runner_of, text
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services

CHAIN = {"a": text(["b"], "A"), "b": text(["m"], "B"), "m": node("Message", {"content": "{b@result}"})}
CALLS = ["run", "+begin", "-begin", "+a", "-a", "+b", "-b", "+m", "-m", "succeeded"]
QUICK = CallbackLimits(timeout_s=0.05, max_waiting=100)


class Listener(RunCallbacks):
    """Records its calls and awaits a function in each."""

    def __init__(self, do: Callable[[str], Awaitable[None]] | None = None) -> None:
        self.calls: list[str] = []
        self.runs: list[RunInfo] = []
        self.summary: RunSummary | None = None
        self._do = do

    async def _note(self, call: str) -> None:
        self.calls.append(call)
        if self._do is not None:
            await self._do(call)

    async def on_run_started(self, run: RunInfo) -> None:
        self.runs.append(run)
        await self._note("run")

    async def on_node_started(self, run: RunInfo, event: NodeStarted) -> None:
        await self._note("+" + event.node)

    async def on_node_finished(self, run: RunInfo, event: NodeFinished) -> None:
        await self._note("-" + event.node)

    async def on_run_finished(self, run: RunInfo, summary: RunSummary) -> None:
        self.summary = summary
        await self._note(summary.status)


async def play(*callbacks: RunCallbacks, limits: CallbackLimits = QUICK, **more: Any) -> Any:
    run = runner_of(CHAIN, callbacks=callbacks, callback_limits=limits, **more).start("s", {"query": "q"})
    answer, _ = await play_run(run)
    assert (run.status, answer) == ("succeeded", "B")
    return run


async def test_callbacks_receive_all_events_in_order() -> None:
    first, second = Listener(), Listener()
    run = await play(first, second, canvas_id="c")
    assert first.calls == second.calls == CALLS
    info = first.runs[0]
    assert (info.run_id, info.canvas_id, info.intent) == (run.envelope.message_id, "c", "start")
    assert first.summary == RunSummary("succeeded", None, 0.0, run.usage, run.agents)


async def test_an_exception_does_not_affect_the_run_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(call: str) -> None:
        raise RuntimeError("no")

    async def cancel(call: str) -> None:
        raise asyncio.CancelledError

    failing, cancelled, other = Listener(fail), Listener(cancel), Listener()
    await play(failing, cancelled, other)
    assert failing.calls == cancelled.calls == other.calls == CALLS
    assert [r.getMessage() for r in caplog.records] == [
        "The callback Listener failed.",
        "The callback Listener was cancelled from within.",
    ]


async def test_a_hanging_callback_gets_no_more_calls_in_its_run(caplog: pytest.LogCaptureFixture) -> None:
    async def hang(call: str) -> None:
        if call == "+a":
            await asyncio.Event().wait()

    hanging, other = Listener(hang), Listener()
    runner = runner_of(CHAIN, callbacks=[hanging, other], callback_limits=QUICK)
    async with asyncio.timeout(60):
        for session in ("s", "t"):
            await play_run(runner.start(session, {"query": "q"}))
    assert hanging.calls == CALLS[:4] * 2
    assert other.calls == CALLS * 2
    assert [r.getMessage() for r in caplog.records] == [
        "The callback Listener took more than 0.05 s and is not called again for this run."
    ]


async def test_a_callback_that_suppresses_its_cancellation_is_abandoned(caplog: pytest.LogCaptureFixture) -> None:
    is_released = asyncio.Event()

    async def insist(call: str) -> None:
        while not is_released.is_set():
            try:
                await is_released.wait()
            except asyncio.CancelledError:
                continue

    async with asyncio.timeout(60):
        await play(Listener(insist))
    assert "did not finish within 0.05 s" in caplog.text
    is_released.set()
    await asyncio.sleep(0)


async def test_events_beyond_the_limit_are_dropped_but_not_the_end(caplog: pytest.LogCaptureFixture) -> None:
    async def wait(call: str) -> None:
        await asyncio.sleep(0.01)

    slow = Listener(wait)
    await play(slow, limits=CallbackLimits(timeout_s=20.0, max_waiting=2))
    assert slow.calls[0] == "run"
    assert slow.calls[-1] == "succeeded"
    assert len(slow.calls) < len(CALLS)
    assert "is too slow: more than 2 events are queued" in caplog.text


async def test_the_end_of_failed_and_cancelled_but_not_of_rejected_runs_is_reported() -> None:
    model = ScriptedModel([Reply(error="down"), Reply("text", hangs=True)])
    listener = Listener()
    ask = {"g": node("LLM", {"prompts": "x"}, ["m"]), "m": node("Message", {"content": "{g@content}"})}
    runner = runner_of(ask, services=fake_services(models=OneModel(model)), callbacks=[listener])
    await play_run(runner.start("s", {"query": "q"}))
    assert (listener.calls[-1], listener.summary and listener.summary.error) == ("failed", "down")
    run = runner.start("s", {"query": "q"})
    async for event in run:
        if event.event == "message":
            run.cancel()
    assert listener.calls[-1] == "cancelled"
    count = len(listener.calls)
    with pytest.raises(ConflictError):
        await play_run(runner.continue_("s"))
    assert len(listener.calls) == count
