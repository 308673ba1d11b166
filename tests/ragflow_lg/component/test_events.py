import asyncio
import json
from typing import Any

import pytest

from ragflow_lg.base.errors import RunCancelled
from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.events import AgentRecord, Delta, EngineEvent, EventSink
from ragflow_lg.runs.wire.wire_events import Envelope

DELTA = Delta(NodeId("llm"), "x", "")

RECORD = AgentRecord(NodeId("a"), "a-->b", 3, "0.1", "thought", 7.5, {"iteration": 1, "text": "Hm."})


def test_the_json_form_of_a_record() -> None:
    assert RECORD.data() == {
        "component_id": "a",
        "path": "a-->b",
        "visit": 3,
        "caller": "0.1",
        "kind": "thought",
        "created_at": 7.5,
        "is_replayed": False,
        "iteration": 1,
        "text": "Hm.",
    }


def test_a_record_can_be_sent_in_the_envelope_of_a_turn() -> None:
    record: Any = RECORD
    frame = json.loads(json.dumps(Envelope("m", 7, "t", "s").wrap(record)))
    assert (frame["event"], frame["message_id"], frame["data"]["text"]) == ("agent_record", "m", "Hm.")


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


async def test_events_are_handled_once_the_reader_asks_for_more() -> None:
    sink = EventSink()
    await sink.handled()
    sink.put(DELTA)
    handling = asyncio.create_task(sink.handled())
    await sink.take()
    await asyncio.sleep(0)
    assert not handling.done()
    reading = asyncio.create_task(sink.take())
    await handling
    sink.put(DELTA)
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
    sink.put(DELTA)
    handling = asyncio.create_task(sink.handled())
    await sink.take()
    await asyncio.sleep(0)
    sink.close()
    with pytest.raises(RunCancelled):
        await handling
    with pytest.raises(RunCancelled):
        await sink.handled()


async def test_an_event_that_a_closed_sink_drops_is_never_handled() -> None:
    sink = EventSink()
    sink.close()
    await sink.handled()
    sink.put(DELTA)
    with pytest.raises(RunCancelled):
        await sink.handled()
