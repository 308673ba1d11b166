from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from ragflow_lg.errors import CanvasChangedError, ConflictError
from ragflow_lg.services import ChatDelta
from tests.fakes.regions import assign, form, loop, node, out, played, runner_of, text
from tests.fakes.services import OneModel, fake_services
from tests.stores import OpenStore


class Slow:
    """A model that says one piece, and then nothing until it is let go."""

    context_tokens = 8192
    has_vision = False

    def __init__(self) -> None:
        self.calls = 0
        self.is_let_go = False

    async def complete(self, request: Any) -> str:
        return ""

    async def stream(self, request: Any) -> Any:
        self.calls += 1
        yield ChatDelta("said ")
        while not self.is_let_go:
            await asyncio.sleep(0.01)
        yield ChatDelta("all")


STREAM = {
    "a": text(["g"], "A"),
    "g": node("LLM", {"prompts": "x"}, ["m"]),
    "m": node("Message", {"content": "{g@content}"}),
}


async def until_it_speaks(run: Any) -> Any:
    events = aiter(run)
    async for event in events:
        if event.event == "message":
            return events
    raise AssertionError("it said nothing")


async def test_a_cancel_from_elsewhere_stops_a_model_in_flight_and_the_turn_goes_on(reopen: OpenStore) -> None:
    model = Slow()
    async with reopen() as store, reopen() as other:
        play = runner_of(STREAM, services=fake_services(models=OneModel(model)), store=store)  # type: ignore[arg-type]
        run = play.start("s", {"query": "q"})
        events = await until_it_speaks(run)
        began = time.monotonic()
        await other.cancels.request("s")
        rest = [event.event async for event in events]
        assert time.monotonic() - began < 2
        assert (run.status, rest[-1]) == ("cancelled", "workflow_finished")
        assert [r.status async for r in store.runs.of_session("s")] == ["cancelled"]
        model.is_let_go = True
        answer, node_events = await played(play.go_on("s"))
        assert answer == "said all"
        assert "+a" not in node_events
        assert model.calls == 2
        assert (await played(play.start("s", {"query": "again"})))[0] == "said all"


async def test_a_second_runner_gets_a_conflict_and_the_first_goes_on(reopen: OpenStore) -> None:
    model = Slow()
    async with reopen() as store, reopen() as other:
        services = fake_services(models=OneModel(model))  # type: ignore[arg-type]
        run = runner_of(STREAM, services=services, store=store).start("s", {"query": "q"})
        events = await until_it_speaks(run)
        second = runner_of(STREAM, services=services, store=other)
        with pytest.raises(ConflictError, match="being run by process"):
            await played(second.start("s", {"query": "mine"}))
        assert (await played(second.start("another", {"query": "mine"}))) if model.is_let_go else True
        model.is_let_go = True
        assert [event.event async for event in events][-1] == "workflow_finished"
        assert run.status == "succeeded"
        assert [r.status async for r in store.runs.of_session("s")] == ["succeeded"]


async def test_a_runner_that_loses_its_lease_stops(reopen_shared: OpenStore) -> None:
    model = Slow()
    async with reopen_shared() as store:
        services = fake_services(models=OneModel(model))  # type: ignore[arg-type]
        run = runner_of(STREAM, services=services, store=store).start("s", {"query": "q"})
        events = await until_it_speaks(run)
        run._lose()  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(ConflictError, match="taken this session over"):
            [event async for event in events]
        assert [r.status async for r in store.runs.of_session("s")] == ["running"]


async def test_a_drained_run_goes_on_elsewhere(reopen: OpenStore) -> None:
    model = Slow()
    async with reopen() as store:
        services = fake_services(models=OneModel(model))  # type: ignore[arg-type]
        play = runner_of(STREAM, services=services, store=store)
        run = play.start("s", {"query": "q"})
        events = await until_it_speaks(run)
        play.drain()
        model.is_let_go = True
        [event async for event in events]
        assert run.status == "drained"
    async with reopen() as store:
        play = runner_of(STREAM, services=fake_services(models=OneModel(model)), store=store)  # type: ignore[arg-type]
        _, node_events = await played(play.go_on("s"))
        assert node_events == ["+m", "-m"]
        assert (await play.state("s"))["outputs"]["m"]["content"] == "said all"


async def test_a_turn_does_not_go_on_with_a_canvas_that_has_lost_its_place() -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    saver = InMemorySaver()
    await played(runner_of({"ask": form("w", downstream=["out"]), **out("{ask@w}")}, saver=saver).start("s", {}))
    changed = {"other": form("w", downstream=["out"]), **out("{other@w}")}
    with pytest.raises(CanvasChangedError, match="ask is gone"):
        await played(runner_of(changed, saver=saver).resume("s", {"w": "x"}))
    reworded = {"ask": form("w", downstream=["out"]), **out("now: {ask@w}")}
    assert (await played(runner_of(reworded, saver=saver).resume("s", {"w": "x"})))[0] == "now: x"


async def test_without_a_store_there_is_nothing_to_resume_or_to_go_on_with() -> None:
    play = runner_of({"t": text()})
    for run in (play.resume("s", {"a": 1}), play.go_on("s")):
        with pytest.raises(ConflictError, match="stands alone"):
            await played(run)


async def test_a_loop_with_forms_is_restarted_after_every_answer(reopen: OpenStore) -> None:
    body = {"ask": form("w", tips="{lp@seen}", downstream=["t"]), "t": text(["k"], "{lp@seen}{ask@w}")}
    body["k"] = assign("lp@seen", "t@result")
    components = {**loop(body, count=3, variables={"seen": ""}), **out("{lp@seen}")}
    tips: list[str] = []
    request: dict[str, Any] = {"query": "q"}
    for word in ("a", "b", "c", ""):
        async with reopen() as store:
            play = runner_of(components, store=store)
            answer, _ = await played(play.start("s", request))  # type: ignore[arg-type]
            tips += [pause.tips for pause in await play.pauses("s")]
            request = {"query": "", "inputs": {"w": {"value": word}}}
    assert (answer, tips) == ("abc", ["", "a", "ab"])
