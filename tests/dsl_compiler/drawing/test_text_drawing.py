from ragflow_lg.dsl_compiler.drawing import to_mermaid, to_text_drawing
from ragflow_lg.dsl_compiler.drawing.text_drawing import MAX_LINES
from tests.dsl_compiler.drawing.plans import DRAWINGS, sketch_of, sketch_with_region, support_sketch


def test_the_tree_of_a_canvas() -> None:
    assert to_text_drawing(support_sketch()) == (DRAWINGS / "support.ascii.txt").read_text(encoding="utf-8")


def test_titles_do_not_control_the_terminal() -> None:
    tree = to_text_drawing(sketch_of([("begin", "a")], {"a": "\x1b]0;owned\x07\x9b31m\u202e"}))
    assert tree.replace("\n", "").isprintable()


def test_a_node_with_two_predecessors_is_drawn_once() -> None:
    tree = to_text_drawing(sketch_of([("begin", "a"), ("begin", "b"), ("a", "c"), ("b", "c"), ("c", "d")]))
    assert tree.count("c  (Message)") == 1
    assert tree.count("↪ c") == 1
    assert tree.count("d  (Message)") == 1


def test_a_drawing_has_a_maximum_length() -> None:
    edges = [("begin", f"a{i}") for i in range(50)] + [(f"a{i}", f"b{j}") for i in range(50) for j in range(50)]
    lines = to_text_drawing(sketch_of(edges)).splitlines()
    assert len(lines) == MAX_LINES + 1
    assert lines[-1].startswith("…")


def test_the_flowchart_of_a_canvas() -> None:
    assert to_mermaid(support_sketch()) == (DRAWINGS / "support.mermaid.txt").read_text(encoding="utf-8")


def test_a_title_cannot_close_its_quotes() -> None:
    flowchart = to_mermaid(sketch_of([("begin", "a")], {"a": '"]\n click n0 "javascript:x" %%{init}%%'}))
    assert "click n0 #34;" in flowchart
    assert len(flowchart.splitlines()) == 4


def test_a_region_is_a_subgraph_of_its_body() -> None:
    flowchart = to_mermaid(sketch_with_region())
    body = flowchart[flowchart.index("subgraph") : flowchart.index("    end\n")]
    assert [name in body for name in ("item", "first", "second", "begin")] == [True, True, True, False]
