import asyncio
from typing import Any

import pytest

from ragflow_lg.base.errors import RunCancelled
from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.events import Delta, EventSink
from ragflow_lg.component.turn_context import TurnContext
from tests.fakes.canvas import canvas, plan_of, text
from tests.fakes.services import fake_services

PLAN = plan_of(canvas({"a": text(["b"]), "b": text()}))


def delta(text_: str = "x") -> Delta:
    return Delta(NodeId("a"), text_)


def context(turn: TurnContext | None = None, **state: Any) -> RunContext:
    return RunContext(PLAN, PLAN.nodes[NodeId("b")], turn or TurnContext(fake_services()), state)


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
