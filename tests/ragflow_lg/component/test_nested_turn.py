from __future__ import annotations

from ragflow_lg.component.nested_turn import NestedTurn
from ragflow_lg.services.chat import Usage


def test_a_visit_has_the_same_name_in_every_process() -> None:
    def names(salt: str) -> list[str]:
        inner = NestedTurn("call")
        inner.number_round(f"it:{salt}1|__round__:{salt}2", 4)
        return [
            inner.task_of(f"a:{salt}0"),
            inner.task_of(f"a:{salt}9"),
            inner.task_of(f"it:{salt}1|__round__:{salt}2|a:{salt}3"),
            inner.task_of(f"it:{salt}1|__round__:{salt}7|a:{salt}3"),
        ]

    assert names("x") == names("y")
    assert names("x") == ["call/a#1", "call/a#2", "call/it/__round__[4]/a#1", "call/it/__round__/a#1"]


def test_what_was_made_before_counts_and_is_said_again() -> None:
    inner = NestedTurn("")
    inner.note(Usage(calls=1), "")
    stored = {"update": {"outputs": {}}, "goto": ["b"], "usage": list(Usage(3, 4, 2, 0.5)), "said": "hi", "tokens": 7}
    assert inner.recall(stored) == ({"outputs": {}}, ["b"])
    assert inner.usage == Usage(3, 4, 3, 0.5)
    assert inner.said == ["hi"]
    assert inner.budget.spent == 7
