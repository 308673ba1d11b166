import json
from typing import Any

import pytest
from langgraph.types import Interrupt, Send

from ragflow_lg.checkpoints.steps.stored_texts import to_object, to_plain
from tests.harness.rows import each_row

PAUSE = Interrupt(value={"tips": "Which?"}, id="0" * 32)


@each_row(
    ("channel", "value", "result"),
    [
        ("__interrupt__", [PAUSE], [PAUSE]),
        ("__interrupt__", (PAUSE, PAUSE), [PAUSE, PAUSE]),
        ("__interrupt__", {"a": 1}, {"a": 1}),
        ("__pregel_tasks", [Send("n", {"a": 1}), Send("m", None)], [Send("n", {"a": 1}), Send("m", None)]),
        ("__pregel_tasks", Send("n", {"a": 1}), Send("n", {"a": 1})),
        ("__error__", ValueError("odd"), "ValueError: odd"),
        ("outputs", {"pauses": [{"id": "x"}]}, {"pauses": [{"id": "x"}]}),
    ],
)
def test_a_value_is_read_as_data_or_as_the_object_of_langgraph(channel: str, value: Any, result: Any) -> None:
    assert to_object(channel, json.loads(json.dumps(to_plain(channel, value)))) == result


DAMAGE: list[tuple[str, Any]] = [
    ("__interrupt__", 5),
    ("__interrupt__", {"pauses": [{}]}),
    ("__pregel_tasks", {}),
    ("__pregel_tasks", {"sends": 1}),
]


@pytest.mark.parametrize(("channel", "stored"), DAMAGE)
def test_a_damaged_value_is_an_error(channel: str, stored: Any) -> None:
    with pytest.raises((TypeError, LookupError, AttributeError)):
        to_object(channel, stored)
