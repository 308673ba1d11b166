import asyncio

import pytest

from ragflow_lg.base.errors import RunCancelled
from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.events import Delta, EngineEvent, EventSink
from ragflow_lg.component.turn_context import TurnContext
from tests.fakes.canvas import canvas, plan_of, text
from tests.fakes.services import fake_services

PLAN = plan_of(canvas({"a": text(["b"]), "b": text()}))


def delta(text_: str = "x") -> Delta:
    return Delta(NodeId("a"), text_)


def context(sink: EventSink) -> tuple[RunContext, TurnContext]:
    turn = TurnContext(fake_services(), sink)
    return RunContext(PLAN, PLAN.nodes[NodeId("b")], turn, {}), turn


async def test_a_slow_reader_makes_the_writer_wait_and_loses_nothing() -> None:
    sink = EventSink(2)
    ctx, _ = context(sink)

    async def write() -> None:
        for i in range(50):
            await ctx.emit(delta(str(i)))
        sink.close()

    writer = asyncio.create_task(write())
    read: list[str] = []
    while events := await sink.take():
        assert len(events) <= 2
        read += [e.text for e in events if isinstance(e, Delta)]
        await asyncio.sleep(0)
    await writer
    assert read == [str(i) for i in range(50)]
    for _ in range(5):
        await ctx.emit(delta())  # nobody reads: it does not wait


async def test_a_cancellation_reaches_a_waiting_writer() -> None:
    sink = EventSink(1)
    ctx, turn = context(sink)
    await ctx.emit(delta())
    waiting = asyncio.create_task(ctx.emit(delta("never")))
    await asyncio.sleep(0)
    turn.cancel()
    await sink.take()
    with pytest.raises(RunCancelled):
        await waiting


async def test_events_are_handled_once_the_reader_asks_for_more() -> None:
    sink = EventSink()
    await sink.handled()
    sink.put(delta())
    handling = asyncio.create_task(sink.handled())
    await sink.take()
    await asyncio.sleep(0)
    assert not handling.done()
    reading = asyncio.create_task(sink.take())
    await handling
    sink.put(delta())
    await reading
    handling = asyncio.create_task(sink.handled())
    await asyncio.sleep(0)
    assert not handling.done()
    assert await asyncio.wait_for(_take_and_close(sink), 60) == []
    await handling


async def _take_and_close(sink: EventSink) -> list[EngineEvent]:
    """Handle the last events, and return those that are taken from the closed sink."""
    taking = asyncio.create_task(sink.take())
    await asyncio.sleep(0)
    sink.close()
    return await taking


async def test_events_are_never_handled_if_the_reader_leaves_before() -> None:
    sink = EventSink(1)
    sink.put(delta())
    handling = asyncio.create_task(sink.handled())
    await sink.take()
    await asyncio.sleep(0)
    sink.close()
    with pytest.raises(RunCancelled):
        await handling
    sink.put(delta())
    with pytest.raises(RunCancelled):
        await sink.handled()
