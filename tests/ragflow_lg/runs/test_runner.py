import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from ragflow_lg.base.errors import RunError
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from ragflow_lg.services.chat import ChatDelta, ChatRequest
from tests.fakes.canvas import CATALOG, canvas, node, switch, text
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services


def create_runner(components: dict[str, Any], saver: Any = None, **services: Any) -> Runner:
    return Runner(compile_canvas(canvas(components), CATALOG), fake_services(**services), saver=saver)


async def test_turns_share_the_state_of_their_session_only() -> None:
    count = {"variables": [{"variable": "env.n", "operator": "+=", "parameter": 1}]}
    components = {
        "a": node("VariableAssigner", count, ["m"]),
        "m": node("Message", {"content": "{env.n} {sys.history}"}),
    }
    document = canvas(components, variables={"n": {"name": "n", "type": "number", "value": 0}})
    runner = Runner(compile_canvas(document, CATALOG), fake_services(), saver=InMemorySaver())
    answers: list[str] = []
    for session, query in (("x", "one"), ("x", "two"), ("y", "three")):
        run = runner.start(session, {"query": query})
        async for _ in run:
            pass
        answers.append(run.answer)
    assert answers[0] == '1 ["user: one"]'
    assert answers[1].startswith('2 ["user: one", "assistant: 1 ')
    assert answers[2] == '1 ["user: three"]'
    assert (await runner.state("x"))["turn"]["number"] == 2
    assert (await runner.state("nobody")) == {}


async def test_a_run_yields_the_events_of_one_turn() -> None:
    run = create_runner({"m": node("Message", {"content": "x"})}).start("s", {"query": "q", "inputs": {"a": 1}})
    events = [event async for event in run]
    assert (events[0].event, events[-1].event) == ("workflow_started", "workflow_finished")
    assert (run.status, run.error, run.answer) == ("succeeded", None, "x")


class EndlessModel(ScriptedModel):
    """A model whose answer never ends."""

    is_closed = False

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        try:
            yield ChatDelta("first")
            await asyncio.sleep(60)
        finally:
            self.is_closed = True


STREAM = {"g": node("LLM", {"prompts": "x"}, ["m"]), "m": node("Message", {"content": "{g@content}"})}


async def test_a_cancelled_run_stops_its_model_and_the_session_can_continue() -> None:
    saver, model = InMemorySaver(), EndlessModel()
    run = create_runner(STREAM, saver, models=OneModel(model)).start("s", {"query": "q"})
    events: list[Any] = []
    async with asyncio.timeout(5):
        async for event in run:
            events.append(event)
            if event.event == "message":
                run.cancel()
    assert run.status == "cancelled"
    assert (events[-1].event, events[-1].outputs) == ("workflow_finished", "Task has been canceled")
    assert model.is_closed
    again = create_runner(STREAM, saver, models=OneModel(ScriptedModel([Reply("ok")]))).start("s", {"query": "q"})
    async for _ in again:
        pass
    assert again.answer == "ok"


async def test_closing_the_iterator_cancels_the_run() -> None:
    model = EndlessModel()
    run = create_runner(STREAM, models=OneModel(model)).start("s", {"query": "q"})
    events: Any = aiter(run)
    async for event in events:
        if event.event == "message":
            break
    await events.aclose()
    assert model.is_closed
    assert run.status == "cancelled"


async def test_a_run_reports_its_failed_node() -> None:
    run = create_runner({"l": node("ListOperations", {"query": "sys.query"})}).start("s", {"query": "q"})
    events = [event.event async for event in run]
    assert (run.status, run.failed_node, events[-1]) == ("failed", "l", "node_finished")
    assert run.error is not None


async def test_an_endless_cycle_fails_the_run() -> None:
    run = create_runner({"a": text(["s"]), "s": switch(["a"], ["end"]), "end": text()}).start("s", {"query": "q"})
    with pytest.raises(RunError, match="cycle"):
        async for _ in run:
            pass
    assert run.status == "failed"


async def test_a_failing_checkpointer_fails_the_run() -> None:
    class FailingSaver(InMemorySaver):
        async def aput(self, *args: Any, **kwargs: Any) -> Any:
            raise OSError("disk full")

    run = create_runner({"m": node("Message", {"content": "x"})}, FailingSaver()).start("s", {"query": "q"})
    with pytest.raises(RunError, match="disk full"):
        async for _ in run:
            pass
