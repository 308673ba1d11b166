import asyncio
import json
import time
from typing import Any

import pytest

from ragflow_lg.base.errors import ComponentError, RunCancelled
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.events import Delta, EventSink
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.dsl.variable_references import Reference, parse_reference, parse_template
from tests.fakes.canvas import canvas, plan_of, text
from tests.fakes.services import fake_services

PLAN = plan_of(canvas({"a": text(["b"]), "b": text()}))


def delta(text_: str = "x") -> Delta:
    return Delta(NodeId("a"), text_)


def context(turn: TurnContext | None = None, **state: Any) -> RunContext:
    return RunContext(PLAN, PLAN.nodes[NodeId("b")], turn or TurnContext(fake_services()), state)


def ref(name: str) -> Reference:
    reference = parse_reference(name)
    assert reference is not None
    return reference


def test_a_text_is_parsed_once_for_many_references(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse = json.loads

    def count(text: str) -> Any:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr(json, "loads", count)
    text_ = '{"a": [1, 2], "once": 1}'
    ctx = context(outputs={"a": {"result": text_}})
    assert [ctx.peek(ref(f"a@result.a.{index % 2}")) for index in range(100)] == [1, 2] * 50
    assert parsed == [text_]


async def test_a_slow_reader_makes_the_writer_wait_and_loses_nothing() -> None:
    sink = EventSink(2)
    ctx = context(TurnContext(fake_services(), sink))
    most = 0

    async def write() -> None:
        for i in range(50):
            await ctx.emit(delta(str(i)))
        sink.close()

    writer = asyncio.create_task(write())
    read: list[str] = []
    while events := await sink.take():
        most = max(most, len(events))
        read += [e.text for e in events if isinstance(e, Delta)]
        await asyncio.sleep(0)
    await writer
    assert read == [str(i) for i in range(50)]
    assert most <= 2


async def test_a_cancellation_reaches_a_waiting_writer() -> None:
    sink = EventSink(1)
    turn = TurnContext(fake_services(), sink)
    ctx = context(turn)
    await ctx.emit(delta())
    waiting = asyncio.create_task(ctx.emit(delta("never")))
    await asyncio.sleep(0)
    turn.cancel()
    await sink.take()
    with pytest.raises(RunCancelled):
        await waiting


async def test_a_closed_sink_blocks_no_writer() -> None:
    sink = EventSink(1)
    ctx = context(TurnContext(fake_services(), sink))
    sink.close()
    for _ in range(5):
        await ctx.emit(delta())
    assert await sink.take() == []


def test_nothing_is_recorded_after_a_report() -> None:
    ctx = context(globals={"env.n": 1})
    ctx.report_inputs({"query": "q"})
    assert (ctx.value(ref("env.n")), ctx.text(parse_template("{env.n}"))) == (1, "1")
    assert ctx.inputs == {"query": "q"}


def test_reads_are_recorded_and_see_earlier_assignments() -> None:
    ctx = context(globals={"env.n": {"k": 1}}, outputs={"a": {"x": {"y": 1}}})
    assert ctx.text(parse_template("{a@x.y}-{env.n.k}-{sys.nope}")) == "1-1-"
    assert ctx.inputs == {"a@x.y": "1", "env.n.k": "1", "sys.nope": ""}
    assert ctx.value(ref("env.n.k")) == ctx.inputs["env.n.k"] == 1
    ctx.assign(ref("a@x.z"), 2)
    ctx.assign(ref("env.n.k"), 5)
    ctx.assign(ref("env.new"), [1])
    assert (ctx.value(ref("a@x")), ctx.value(ref("env.n")), ctx.value(ref("env.new.0"))) == (
        {"y": 1, "z": 2},
        {"k": 5},
        1,
    )
    assert ctx.output_updates == {"a": {"x": {"y": 1, "z": 2}}}
    assert ctx.global_updates == {"env.n": {"k": 5}, "env.new": [1]}


def test_assigning_a_name_of_very_many_parts_takes_no_time() -> None:
    ctx, began = context(), time.process_time()
    ctx.assign(ref("env" + ".n" * 20_000), 5)
    assert time.process_time() - began < 0.5
    assert [*ctx.global_updates.values()] == [5]


def test_unknown_components_cannot_be_read_or_assigned() -> None:
    for act in (lambda: context().value(ref("ghost@x")), lambda: context().assign(ref("ghost@x"), 1)):
        with pytest.raises(ComponentError, match="ghost@x"):
            act()


def test_a_pure_reference_keeps_its_type() -> None:
    ctx = context(outputs={"a": {"x": [1]}})
    assert ctx.resolve(parse_template("{a@x}")) == [1]
    assert ctx.resolve(parse_template("n={a@x}")) == "n=[1]"
    assert ctx.resolve(3) == 3


async def test_a_mark_shows_what_has_begun_in_this_visit_and_its_tools() -> None:
    ctx = context()
    payment: dict[str, JsonValue] = {"to": 1}
    await ctx.begin("pay", payment, "0.1")
    assert await ctx.has_begun("pay", payment, "0.1")
    assert not await ctx.has_begun("send", payment, "0.1")
    assert not await ctx.has_begun("pay", {"to": 2}, "0.1")
    assert not await ctx.has_begun("pay", payment, "0.2")
    one, again, other_child = (ctx.child(ctx.node, position) for position in ("1.0", "1.0", "1.1"))
    await one.begin("pay", {}, "0")
    assert await again.has_begun("pay", {}, "0")
    assert not await other_child.has_begun("pay", {}, "0")
    assert not await context().has_begun("pay", payment, "0.1")


async def test_without_a_store_only_steps_in_memory_are_not_repeated() -> None:
    ctx, calls = context(), list[str]()

    async def call() -> str:
        calls.append("x")
        return "y"

    for in_memory in (False, True):
        for _ in range(2):
            assert await ctx.step("a", {}, call, position="0", in_memory=in_memory) == "y"
    assert len(calls) == 3
