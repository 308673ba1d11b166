from typing import Any

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.events import ModelCalled, NodeFinished
from ragflow_lg.runs.trace import MAX_CALL_CHARS, MAX_CALLS, MAX_VISITS, NodeLog
from ragflow_lg.services.chat import Usage


def finished(number: int = 1, *, attempts: int = 1, usage: Usage | None = None, error: str | None = None) -> Any:
    return NodeFinished(NodeId("a"), 5.0, 0.5, {}, {"x": 1}, error, usage=usage, visit=number, attempts=attempts)


def called(**details: Any) -> ModelCalled:
    return ModelCalled(NodeId("a"), "a", 1, "", 5.0, 0.25, Usage(3, 2, 1, 0.5), details)


def parts(log: NodeLog) -> tuple[list[Any], list[Any], int]:
    blocks: list[Any] = [*log.blocks]
    return blocks[0]["trace"], blocks[1]["trace"], blocks[1]["dropped"]


def test_a_visit_has_its_time_attempts_and_usage() -> None:
    log = NodeLog()
    assert log.add(finished(2, attempts=3, usage=Usage(7, 4, 2, 0.25), error="no"))
    place = {"node": "a", "visit": 2, "place": "", "created_at": 5.0, "seconds": 0.5}
    assert parts(log) == ([{**place, "attempts": 3, "usage": [7, 4, 0.25], "failed": True}], [], 0)


def test_the_oldest_calls_and_visits_are_dropped() -> None:
    log = NodeLog()
    for number in range(MAX_CALLS + 5):
        log.add(called(answer=number))
        log.add(finished(number))
    for number in range(MAX_VISITS):
        log.add(finished(number))
    visits, calls, dropped = parts(log)
    assert (len(visits), visits[0]["visit"]) == (MAX_VISITS, 0)
    assert (len(calls), calls[0]["answer"], dropped) == (MAX_CALLS, 5, 5)
    for number in range(30):
        log.add(called(answer=f"{number}" * 100_000))
    calls = parts(log)[1]
    assert sum(len(str(call["answer"])) for call in calls) <= MAX_CALL_CHARS
    assert calls[-1]["answer"].startswith("29")
