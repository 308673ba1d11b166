from __future__ import annotations

from ragflow_lg.server.drawing import to_text_drawing
from ragflow_lg.server.drawing.text_drawing import MAX_LINES
from tests.server.drawing.plans import DRAWINGS, plan_of, support_plan


def test_the_whole_text() -> None:
    assert to_text_drawing(support_plan()) == (DRAWINGS / "support.ascii.txt").read_text(encoding="utf-8")


def test_nothing_reaches_the_terminal_as_a_command() -> None:
    drawn = to_text_drawing(plan_of([("begin", "a")], {"a": "\x1b]0;owned\x07\x9b31m\u202e"}))
    assert drawn.replace("\n", "").isprintable()


def test_a_node_is_shown_once_and_named_again_where_ways_meet() -> None:
    drawn = to_text_drawing(plan_of([("begin", "a"), ("begin", "b"), ("a", "c"), ("b", "c"), ("c", "d")]))
    assert drawn.count("c  (Message)") == 1
    assert drawn.count("↪ c") == 1
    assert drawn.count("d  (Message)") == 1


def test_a_drawing_has_an_end() -> None:
    edges = [("begin", f"a{i}") for i in range(50)] + [(f"a{i}", f"b{j}") for i in range(50) for j in range(50)]
    lines = to_text_drawing(plan_of(edges)).splitlines()
    assert len(lines) == MAX_LINES + 1
    assert lines[-1].startswith("…")
