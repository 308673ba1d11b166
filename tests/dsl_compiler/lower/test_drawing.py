from langgraph.checkpoint.memory import InMemorySaver

from dsl_compiler import compile_canvas
from tests.fakes.canvas import CATALOG, canvas, switch, text


def test_only_edges_that_depend_on_the_run_are_conditional() -> None:
    compiled = compile_canvas(canvas({"s": switch(["a"], ["b"]), "a": text(["c"]), "b": text(), "c": text()}), CATALOG)
    for graph in (compiled.graph, compiled.with_saver(InMemorySaver()).graph):
        edges = {(e.source, e.target): (e.conditional, e.data) for e in graph.get_graph().edges}
        assert edges["s", "a"] == (True, "Case 1")
        assert edges["s", "b"] == (True, "Else")
        assert edges["a", "c"] == (False, None)
        assert ("c", "__end__") in edges
        assert "__close__" not in graph.get_graph().nodes


def test_large_canvases_are_drawn_whole() -> None:
    ids = [f"n{i}" for i in range(400)]
    chain = {id_: text(ids[i + 1 : i + 2]) for i, id_ in enumerate(ids)}
    assert len(compile_canvas(canvas(chain), CATALOG).graph.get_graph().edges) == 402
