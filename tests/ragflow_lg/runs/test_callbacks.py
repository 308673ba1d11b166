import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ragflow_lg.base.errors import ConflictError
from ragflow_lg.component.events import AgentRecord, NodeFinished, NodeStarted
from ragflow_lg.runs.callbacks import CallbackLimits, RunCallbacks, RunInfo, RunSummary
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.regions import node, play_run, runner_of, text
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services

CHAIN = {"a": text(["b"], "A"), "b": text(["m"], "B"), "m": node("Message", {"content": "{b@result}"})}
TOLD = ["run", "+begin", "-begin", "+a", "-a", "+b", "-b", "+m", "-m", "succeeded"]
QUICK = CallbackLimits(timeout_s=0.05, max_waiting=100)


class Listener(RunCallbacks):
    """Writes down what it is told, and does something each time."""

    def __init__(self, do: Callable[[str], Awaitable[None]] | None = None) -> None:
        self.told: list[str] = []
        self.runs: list[RunInfo] = []
        self.summary: RunSummary | None = None
        self._do = do

    async def _note(self, what: str) -> None:
        self.told.append(what)
        if self._do is not None:
            await self._do(what)

    async def on_run_started(self, run: RunInfo) -> None:
        self.runs.append(run)
        await self._note("run")

    async def on_node_started(self, run: RunInfo, event: NodeStarted) -> None:
        await self._note("+" + event.node)

    async def on_node_finished(self, run: RunInfo, event: NodeFinished) -> None:
        await self._note("-" + event.node)

    async def on_agent_record(self, run: RunInfo, record: AgentRecord) -> None:
        await self._note(record.kind)

    async def on_run_finished(self, run: RunInfo, summary: RunSummary) -> None:
        self.summary = summary
        await self._note(summary.status)


async def play(*callbacks: RunCallbacks, limits: CallbackLimits = QUICK, **more: Any) -> Any:
    run = runner_of(CHAIN, callbacks=callbacks, callback_limits=limits, **more).start("s", {"query": "q"})
    answer, _ = await play_run(run)
    assert (run.status, answer) == ("succeeded", "B")
    return run


async def test_everything_is_told_in_order() -> None:
    first, second = Listener(), Listener()
    run = await play(first, second, canvas_id="c")
    assert first.told == second.told == TOLD
    about = first.runs[0]
    assert (about.run_id, about.canvas_id, about.intent) == (run.envelope.message_id, "c", "start")
    assert first.summary == RunSummary("succeeded", None, 0.0, run.usage, run.agents)


async def test_agents_tell_their_records() -> None:
    listener = Listener()
    await play_agent([tool_calls(("wikipedia_search_0", {"query": "Laos"})), Reply("So.")], callbacks=[listener])
    at = listener.told.index("+a")
    assert listener.told[at + 1 : at + 5] == [
        "iteration_started",
        "iteration_finished",
        "tool_started",
        "tool_finished",
    ]
    assert listener.told.index("agent_finished") < listener.told.index("-a")


async def test_one_that_overrides_nothing_is_fine() -> None:
    class Deaf(RunCallbacks):
        pass

    await play(Deaf())


async def test_an_exception_harms_nobody_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(what: str) -> None:
        raise RuntimeError("no")

    async def cancel(what: str) -> None:
        raise asyncio.CancelledError

    failing, cancelled, other = Listener(fail), Listener(cancel), Listener()
    with caplog.at_level(logging.WARNING):
        await play(failing, cancelled, other)
    assert failing.told == cancelled.told == other.told == TOLD
    assert [r.getMessage() for r in caplog.records] == [
        "The callback Listener failed.",
        "The callback Listener was cancelled from within.",
    ]


async def test_a_hang_harms_nobody_and_ends_the_telling(caplog: pytest.LogCaptureFixture) -> None:
    async def hang(what: str) -> None:
        if what == "+a":
            await asyncio.Event().wait()

    hanging, other = Listener(hang), Listener()
    runner = runner_of(CHAIN, callbacks=[hanging, other], callback_limits=QUICK)
    began = time.monotonic()
    with caplog.at_level(logging.WARNING):
        for session in ("s", "t"):
            await play_run(runner.start(session, {"query": "q"}))
    assert time.monotonic() - began < 1
    assert hanging.told == TOLD[:4] * 2
    assert other.told == TOLD * 2
    assert [r.getMessage() for r in caplog.records] == [
        "The callback Listener took more than 0.05 s and gets no more calls for this run."
    ]


async def test_one_that_cannot_be_stopped_is_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    is_let_go = asyncio.Event()

    async def insist(what: str) -> None:
        while not is_let_go.is_set():
            try:
                await is_let_go.wait()
            except asyncio.CancelledError:
                continue

    with caplog.at_level(logging.WARNING):
        async with asyncio.timeout(2):
            await play(Listener(insist))
    assert "did not finish within 0.05 s" in caplog.text
    is_let_go.set()
    await asyncio.sleep(0)


async def test_too_many_waiting_events_are_dropped_but_not_the_end(caplog: pytest.LogCaptureFixture) -> None:
    async def wait(what: str) -> None:
        await asyncio.sleep(0.01)

    slow = Listener(wait)
    with caplog.at_level(logging.WARNING):
        await play(slow, limits=CallbackLimits(timeout_s=2.0, max_waiting=2))
    assert slow.told[0] == "run"
    assert slow.told[-1] == "succeeded"
    assert len(slow.told) < len(TOLD)
    assert "is too slow: more than 2 events are queued" in caplog.text


async def test_failed_cancelled_and_refused_runs() -> None:
    model = ScriptedModel([Reply(error="down"), Reply("said", hangs=True)])
    listener = Listener()
    ask = {"g": node("LLM", {"prompts": "x"}, ["m"]), "m": node("Message", {"content": "{g@content}"})}
    runner = runner_of(ask, services=fake_services(models=OneModel(model)), callbacks=[listener])
    await play_run(runner.start("s", {"query": "q"}))
    assert (listener.told[-1], listener.summary and listener.summary.error) == ("failed", "down")
    run = runner.start("s", {"query": "q"})
    async for event in run:
        if event.event == "message":
            run.cancel()
    assert listener.told[-1] == "cancelled"
    count = len(listener.told)
    with pytest.raises(ConflictError):
        await play_run(runner.continue_("s"))
    assert len(listener.told) == count


async def test_a_reader_who_leaves_ends_the_telling() -> None:
    listener = Listener()
    run = runner_of(CHAIN, callbacks=[listener]).start("s", {"query": "q"})
    events: Any = aiter(run)
    await anext(events)
    await events.aclose()
    assert (listener.told[0], listener.told[-1]) == ("run", "cancelled")
