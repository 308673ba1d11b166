import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from ragflow_lg.base.errors import ConflictError, RunError
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.engine import compiled_canvas
from ragflow_lg.runs.runner import Runner, abandon
from ragflow_lg.runs.stored_turn import session_status
from ragflow_lg.services.chat import ChatDelta, ChatRequest
from ragflow_lg.services.sessions import hold_lease
from tests.fakes.canvas import CATALOG, canvas, node, switch, text
from tests.fakes.regions import assign, form, iteration, loop, out, play_run, runner_of
from tests.fakes.services import OneModel, ScriptedModel, fake_services
from tests.stores import OpenStore

TWO = {"a": form("x", downstream=["out"]), "b": form("y", downstream=["out"]), **out("{a@x}+{b@y} {sys.query}")}


def create_runner(components: dict[str, Any], saver: Any = None, **services: Any) -> Runner:
    return Runner(compile_canvas(canvas(components), CATALOG), fake_services(**services), saver=saver)


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


async def test_without_a_store_a_turn_cannot_be_resumed_or_continued() -> None:
    runner = create_runner({"t": text()})
    for run in (runner.resume("s", {"a": 1}), runner.continue_("s")):
        with pytest.raises(ConflictError, match="turns are independent"):
            await play_run(run)


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


def beside_a_form(**params: Any) -> dict[str, Any]:
    """Return a canvas with an operation on a list beside a form."""
    forms = {"a": text(["ask", "l"]), "ask": form("w", downstream=["out"]), **out("{ask@w}")}
    return {**forms, "l": node("ListOperations", params)}


@pytest.mark.parametrize("answers_by", ["resume", "start"])
async def test_a_node_that_failed_next_to_a_form_is_reported_after_the_answer(answers_by: str) -> None:
    runner = create_runner(beside_a_form(query="sys.query"), InMemorySaver())
    first = runner.start("s", {"query": "q"})
    _, events = await play_run(first)
    assert (first.status, first.failed_node, events[-1]) == ("waiting", "l", "?w")
    second = runner.resume("s", {"w": "x"}) if answers_by == "resume" else runner.start("s", {"inputs": {"w": "x"}})
    _, events = await play_run(second)
    assert events == ["+ask", "-ask", "+l", "-l"]
    assert (second.status, second.failed_node, second.error) == ("failed", "l", first.error)


async def test_a_rerun_of_the_failed_node_keeps_the_answer_to_the_form_next_to_it() -> None:
    variables = {"list": {"name": "list", "type": "string", "value": "no list"}}
    components = beside_a_form(query="env.list", operations="topN", n=1)
    runner = runner_of(components, variables=variables, saver=InMemorySaver())
    await play_run(runner.start("s", {"query": "q"}))
    await play_run(runner.resume("s", {"w": "x"}))
    rerun = await runner.rerun("s", "t", "l", changes={"env.list": [1]})
    assert await play_run(rerun) == ("x", ["+l", "-l", "+out", "-out"])
    assert rerun.status == "succeeded"


async def test_an_endless_cycle_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_canvas, "CYCLE_STEPS", 200)
    run = create_runner({"a": text(["s"]), "s": switch(["a"], ["end"]), "end": text()}).start("s", {"query": "q"})
    with pytest.raises(RunError, match="cycle"):
        await play_run(run)
    assert run.status == "failed"


class FailingSaver(InMemorySaver):
    async def aput(self, *args: Any, **kwargs: Any) -> Any:
        raise OSError("disk full")


async def test_a_failing_checkpointer_fails_the_run() -> None:
    with pytest.raises(RunError, match="disk full"):
        await play_run(create_runner({"a": text()}, FailingSaver()).start("s", {"query": "q"}))


async def test_an_abandoned_turn_is_cancelled_and_the_next_one_starts_normally(reopen: OpenStore) -> None:
    compiled = compile_canvas(canvas(TWO, ["a", "b"]), CATALOG)
    async with reopen() as store:
        runner = Runner(compiled, fake_services(), store=store)
        await play_run(runner.start("s", {"query": "one"}))
        await play_run(runner.resume("s", {"x": "A"}))
        await runner.abandon("s")
        assert await runner.pauses("s") == []
    async with reopen() as store:
        runner = Runner(compiled, fake_services(), store=store)
        canvas_ = compiled.with_saver(store.saver)
        assert session_status(await canvas_.graph.aget_state(canvas_.thread_config("s"))) == "cancelled"
        assert [record.status async for record in store.runs.of_session("s")] == ["cancelled", "waiting"]
        rejections = ((runner.resume("s", {"y": "B"}), "is not waiting"), (runner.continue_("s"), "no unfinished turn"))
        for run, reason in rejections:
            with pytest.raises(ConflictError, match=reason):
                await play_run(run)
        with pytest.raises(ConflictError, match="is not waiting"):
            await runner.abandon("s")
        assert (await play_run(runner.start("s", {"query": "two"})))[1] == ["+begin", "-begin", "?x,y"]
        assert (await play_run(runner.resume("s", {"x": "C", "y": "D"})))[0] == "C+D two"
        history = (await runner.state("s"))["history"]
        assert [text for role, text in history if role == "user"] == ["one", "", "two", ""]


@pytest.mark.parametrize(
    "components",
    [
        {**loop({"ask": form("w")}, count=2), **out("{ask@w}")},
        {**iteration({"ask": form("w")}, {"all": "ask@w"}, items="sys.files"), **out("{it@all}")},
    ],
)
async def test_a_pause_in_a_region_is_abandoned(components: dict[str, Any]) -> None:
    runner = runner_of(components)
    request: Any = {"query": "q", "files": [{"id": "1", "name": "n"}, {"id": "2", "name": "m"}]}
    assert (await play_run(runner.start("s", request)))[1][-1] == "?w"
    await runner.abandon("s")
    assert await runner.pauses("s") == []
    _, events = await play_run(runner.start("s", request))
    assert (events[0], events[-1]) == ("+begin", "?w")
    await play_run(runner.resume("s", {"w": "x"}))
    assert (await play_run(runner.resume("s", {"w": "y"})))[1][-1] == "-out"


async def test_what_a_region_assigned_before_its_pause_is_kept() -> None:
    body = {"set": assign("env.t", "{env.t}+", "set", ["ask"]), "ask": form("w")}
    variables = {"t": {"name": "t", "type": "string", "value": "old"}}
    runner = runner_of({**loop(body), **out("{env.t}")}, variables=variables)
    await play_run(runner.start("s", {"query": "q"}))
    assert (await runner.state("s"))["globals"]["env.t"] == "old+"
    await runner.abandon("s")
    assert (await runner.state("s"))["globals"]["env.t"] == "old+"
    assert (await play_run(runner.start("s", {"query": "q"})))[1][-1] == "?w"
    assert (await runner.state("s"))["globals"]["env.t"] == "old++"


async def test_a_running_session_cannot_be_abandoned(reopen: OpenStore) -> None:
    async with reopen() as store:
        runner = Runner(compile_canvas(canvas(TWO, ["a", "b"]), CATALOG), fake_services(), store=store)
        await play_run(runner.start("s", {"query": "one"}))
        async with hold_lease(store.leases, "s"):
            with pytest.raises(ConflictError, match="already running"):
                await runner.abandon("s")
        assert len(await runner.pauses("s")) == 2


async def test_a_turn_can_be_abandoned_with_a_canvas_without_its_form(reopen: OpenStore) -> None:
    other = compile_canvas(canvas(out("{sys.query}")), CATALOG)
    async with reopen() as store:
        services = fake_services()
        await play_run(Runner(compile_canvas(canvas(TWO, ["a", "b"]), CATALOG), services, store=store).start("s", {}))
        await abandon(other.with_saver(store.saver), "s", store, services.clock)
        assert [record.status async for record in store.runs.of_session("s")] == ["cancelled"]
        assert (await play_run(Runner(other, services, store=store).start("s", {"query": "two"})))[0] == "two"
