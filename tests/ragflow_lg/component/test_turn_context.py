from __future__ import annotations

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.event_sink import EventSink
from ragflow_lg.component.events import Delta, EngineEvent
from ragflow_lg.component.turn_context import TurnContext
from tests.fakes.services import fake_services

DELTA = Delta(NodeId("llm"), "x", "")


async def test_an_event_goes_to_the_sink_or_to_who_writes() -> None:
    written: list[EngineEvent] = []
    await TurnContext(fake_services()).emit(DELTA, written.append)
    assert written == [DELTA]
    sink = EventSink()
    await TurnContext(fake_services(), sink).emit(DELTA, written.append)
    assert written == await sink.take() == [DELTA]


def test_a_cancel_ends_what_runs() -> None:
    turn = TurnContext(fake_services())
    turn.cancel()
    assert turn.is_cancelled
