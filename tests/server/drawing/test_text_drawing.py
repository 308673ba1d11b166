from ragflow_lg.server.drawing import to_text_drawing
from ragflow_lg.server.drawing.text_drawing import MAX_LINES
from tests.server.drawing.plans import DRAWINGS, plan_of, support_plan


def test_the_tree_of_a_canvas() -> None:
    assert to_text_drawing(support_plan()) == (DRAWINGS / "support.ascii.txt").read_text(encoding="utf-8")


def test_titles_do_not_control_the_terminal() -> None:
    tree = to_text_drawing(plan_of([("begin", "a")], {"a": "\x1b]0;owned\x07\x9b31m\u202e"}))
    assert tree.replace("\n", "").isprintable()


def test_a_node_with_two_predecessors_is_drawn_once() -> None:
    tree = to_text_drawing(plan_of([("begin", "a"), ("begin", "b"), ("a", "c"), ("b", "c"), ("c", "d")]))
    assert tree.count("c  (Message)") == 1
    assert tree.count("↪ c") == 1
    assert tree.count("d  (Message)") == 1


def test_a_drawing_has_a_maximum_length() -> None:
    edges = [("begin", f"a{i}") for i in range(50)] + [(f"a{i}", f"b{j}") for i in range(50) for j in range(50)]
    lines = to_text_drawing(plan_of(edges)).splitlines()
    assert len(lines) == MAX_LINES + 1
    assert lines[-1].startswith("…")
