from typing import Any

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.begun_calls import BegunCalls
from ragflow_lg.component.events import Delta, EngineEvent, EventSink
from ragflow_lg.component.node_steps import MemorySteps
from ragflow_lg.component.turn_context import NestedVisits, TurnContext
from ragflow_lg.services.chat import Usage
from tests.fakes.services import fake_services

DELTA = Delta(NodeId("llm"), "x", "")


async def test_an_event_goes_to_the_sink_or_to_the_writer() -> None:
    written: list[EngineEvent] = []
    await TurnContext(fake_services()).emit(DELTA, written.append)
    assert written == [DELTA]
    sink = EventSink()
    await TurnContext(fake_services(), sink).emit(DELTA, written.append)
    assert written == await sink.take() == [DELTA]


def test_a_cancelled_turn_is_marked() -> None:
    turn = TurnContext(fake_services())
    turn.cancel()
    assert turn.is_cancelled


def test_a_visit_has_the_same_name_in_every_process() -> None:
    def names(salt: str) -> list[str]:
        inner = NestedVisits("call", BegunCalls(MemorySteps(), ""))
        inner.number_round(f"it:{salt}1|__round__:{salt}2", 4)
        return [
            inner.name_visit(f"a:{salt}0"),
            inner.name_visit(f"a:{salt}9"),
            inner.name_visit(f"it:{salt}1|__round__:{salt}2|a:{salt}3"),
            inner.name_visit(f"it:{salt}1|__round__:{salt}7|a:{salt}3"),
        ]

    assert names("x") == names("y")
    assert names("x") == ["call/a#1", "call/a#2", "call/it/__round__[4]/a#1", "call/it/__round__/a#1"]


def test_a_restored_visit_counts_and_repeats_its_text() -> None:
    inner = NestedVisits("", BegunCalls(MemorySteps(), ""))
    inner.record(Usage(calls=1), "")
    stored: dict[str, Any] = {
        "update": {"outputs": {}},
        "goto": ["b"],
        "usage": list(Usage(3, 4, 2, 0.5)),
        "said": "hi",
        "tokens": 7,
    }
    assert inner.restore(stored) == ({"outputs": {}}, ["b"])
    assert inner.usage == Usage(3, 4, 3, 0.5)
    assert inner.texts == ["hi"]
    assert inner.budget.spent == 7
