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


def runner(components: dict[str, Any], saver: Any = None, **services: Any) -> Runner:
    return Runner(compile_canvas(canvas(components), CATALOG), fake_services(**services), saver=saver)


async def test_turns_of_a_session_build_on_each_other_and_sessions_stay_apart() -> None:
    count = {"variables": [{"variable": "env.n", "operator": "+=", "parameter": 1}]}
    components = {
        "a": node("VariableAssigner", count, ["m"]),
        "m": node("Message", {"content": "{env.n} {sys.history}"}),
    }
    document = canvas(components, variables={"n": {"name": "n", "type": "number", "value": 0}})
    play = Runner(compile_canvas(document, CATALOG), fake_services(), saver=InMemorySaver())
    answers: list[str] = []
    for session, query in (("x", "one"), ("x", "two"), ("y", "three")):
        run = play.start(session, {"query": query})
        async for _ in run:
            pass
        answers.append(run.answer)
    assert answers[0] == '1 ["user: one"]'
    assert answers[1].startswith('2 ["user: one", "assistant: 1 ')
    assert answers[2] == '1 ["user: three"]'
    assert (await play.state("x"))["turn"]["number"] == 2
    assert (await play.state("nobody")) == {}


async def test_events_are_those_of_one_turn() -> None:
    run = runner({"m": node("Message", {"content": "x"})}).start("s", {"query": "q", "inputs": {"a": 1}})
    events = [event async for event in run]
    assert (events[0].event, events[-1].event) == ("workflow_started", "workflow_finished")
    assert (run.status, run.error, run.answer) == ("succeeded", None, "x")


class Endless:
    """A model that never comes to an end."""

    context_tokens = 8192
    has_vision = False

    def __init__(self) -> None:
        self.is_closed = False

    async def complete(self, request: ChatRequest) -> str:
        return ""

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        try:
            yield ChatDelta("first")
            await asyncio.sleep(60)
        finally:
            self.is_closed = True


STREAM = {"g": node("LLM", {"prompts": "x"}, ["m"]), "m": node("Message", {"content": "{g@content}"})}


async def test_a_cancel_stops_a_model_in_flight_and_the_session_goes_on() -> None:
    saver, model = InMemorySaver(), Endless()
    run = runner(STREAM, saver, models=OneModel(model)).start("s", {"query": "q"})  # type: ignore[arg-type]
    events: list[Any] = []
    async with asyncio.timeout(5):
        async for event in run:
            events.append(event)
            if event.event == "message":
                run.cancel()
    assert run.status == "cancelled"
    assert (events[-1].event, events[-1].outputs) == ("workflow_finished", "Task has been canceled")
    assert model.is_closed
    again = runner(STREAM, saver, models=OneModel(ScriptedModel([Reply("ok")]))).start("s", {"query": "q"})
    async for _ in again:
        pass
    assert again.answer == "ok"


async def test_leaving_the_iteration_ends_the_turn() -> None:
    model = Endless()
    run = runner(STREAM, models=OneModel(model)).start("s", {"query": "q"})  # type: ignore[arg-type]
    events = aiter(run)
    async for event in events:
        if event.event == "message":
            break
    await events.aclose()  # type: ignore[attr-defined]
    assert model.is_closed
    assert run.status == "cancelled"


async def test_a_failed_node_is_named() -> None:
    run = runner({"l": node("ListOperations", {"query": "sys.query"})}).start("s", {"query": "q"})
    events = [event.event async for event in run]
    assert (run.status, run.failed_node, events[-1]) == ("failed", "l", "node_finished")
    assert run.error is not None


async def test_an_endless_cycle_is_stopped_with_a_reason() -> None:
    run = runner({"a": text(["s"]), "s": switch(["a"], ["end"]), "end": text()}).start("s", {"query": "q"})
    with pytest.raises(RunError, match="cycle"):
        async for _ in run:
            pass
    assert run.status == "failed"


async def test_a_failing_checkpointer_is_an_error_of_the_run() -> None:
    class Broken(InMemorySaver):
        async def aput(self, *args: Any, **kwargs: Any) -> Any:
            raise OSError("disk full")

    run = runner({"m": node("Message", {"content": "x"})}, Broken()).start("s", {"query": "q"})
    with pytest.raises(RunError, match="disk full"):
        async for _ in run:
            pass
