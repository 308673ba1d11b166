import asyncio

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.event_sink import EventSink
from ragflow_lg.component.events import Delta

DELTA = Delta(NodeId("llm"), "x", "")


async def test_a_waiting_reader_is_woken() -> None:
    sink = EventSink()
    reading = asyncio.create_task(sink.take())
    await asyncio.sleep(0)
    sink.put(DELTA)
    sink.put(DELTA)
    assert await reading == [DELTA, DELTA]


async def test_a_full_sink_has_room_once_it_is_read() -> None:
    sink = EventSink(1)
    sink.put(DELTA)
    waiting = asyncio.create_task(sink.room())
    await asyncio.sleep(0)
    assert sink.is_full
    assert not waiting.done()
    await sink.take()
    await waiting
    assert not sink.is_full


async def test_a_closed_sink_returns_the_rest_then_nothing() -> None:
    sink = EventSink()
    sink.put(DELTA)
    sink.close()
    sink.put(DELTA)
    assert await sink.take() == [DELTA]
    assert await sink.take() == []
