from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from ragflow_lg.base.errors import CanvasChangedError
from ragflow_lg.checkpoints import open_store
from ragflow_lg.runs.wire.wire_events import WireNodeFinished
from tests.fakes.regions import form, iteration, loop, node, out, play_run, runner_of, text

ITEMS = {"items": {"name": "items", "type": "array<string>", "value": ["a", "b", "c"]}}


def iterate(concurrency: int) -> dict[str, Any]:
    body = {"t": text(["u"], "{ii@item}!"), "u": text(script="{t@result}?")}
    return {**iteration(body, {"r": "u@result"}, items="env.items", max_concurrency=concurrency), **out("{it@r}")}


async def test_a_turn_cannot_continue_with_a_canvas_without_its_node() -> None:
    saver = InMemorySaver()
    await play_run(runner_of({"ask": form("w", downstream=["out"]), **out("{ask@w}")}, saver=saver).start("s", {}))
    other = {"other": form("w", downstream=["out"]), **out("{other@w}")}
    with pytest.raises(CanvasChangedError, match="ask is gone"):
        await play_run(runner_of(other, saver=saver).resume("s", {"w": "x"}))
    rewritten = {"ask": form("w", downstream=["out"]), **out("now: {ask@w}")}
    assert (await play_run(runner_of(rewritten, saver=saver).resume("s", {"w": "x"})))[0] == "now: x"


@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0)])
async def test_a_turn_cannot_continue_in_a_region_with_another_concurrency(before: int, after: int) -> None:
    async with open_store("memory://") as store:
        runner = runner_of(iterate(before), variables=ITEMS, store=store)
        run = runner.start("s", {"query": "q"})
        async for event in run:
            if isinstance(event, WireNodeFinished) and event.component_id == "t":
                run.drain()
        assert run.status == "drained"
        with pytest.raises(CanvasChangedError, match=r"it was Iteration with .* and is now Iteration with"):
            await play_run(runner_of(iterate(after), variables=ITEMS, store=store).continue_("s"))
        assert (await play_run(runner.continue_("s")))[0] == '["a!?", "b!?", "c!?"]'


@pytest.mark.parametrize("stop", ["pause", "drain"])
async def test_a_canvas_with_another_body_of_a_region_is_rejected(stop: str) -> None:
    def components(name: str) -> dict[str, Any]:
        waiting = form("a", downstream=["m"]) if stop == "pause" else text(["m"], "z")
        message = node("Message", {"content": [f"got {{{name}@{'a' if stop == 'pause' else 'result'}}}"]})
        return {**loop({"t": text([name], "r"), name: waiting, "m": message}), **out("end")}

    async with open_store("memory://", durability="steps") as store:
        runner = runner_of(components("f"), store=store)
        run = runner.start("s", {"query": "q"})
        async for event in run:
            if isinstance(event, WireNodeFinished) and event.component_id == "t":
                runner.drain() if stop == "drain" else None
        other = runner_of(components("g"), store=store)
        with pytest.raises(CanvasChangedError, match="f is gone"):
            await play_run(other.resume("s", {"a": "1"}) if stop == "pause" else other.continue_("s"))
        rest, _ = await play_run(runner.resume("s", {"a": "1"}) if stop == "pause" else runner.continue_("s"))
        assert rest.startswith("got ")


async def test_a_continued_turn_whose_messages_are_stored_has_their_answer() -> None:
    runner = runner_of(out("hello"), saver=InMemorySaver())
    run = runner.start("s", {"query": "q"})
    async for event in run:
        if isinstance(event, WireNodeFinished) and event.component_id == "out":
            run.drain()
    assert (run.status, run.answer) == ("drained", "hello")
    assert (await play_run(runner.continue_("s")))[0] == "hello"
    assert (await runner.state("s"))["history"] == [["user", "q"], ["assistant", {"content": "hello", "downloads": []}]]
