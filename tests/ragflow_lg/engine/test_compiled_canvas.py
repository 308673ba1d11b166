from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.engine.compiled_canvas import CYCLE_STEPS
from tests.fakes.canvas import CATALOG, canvas, switch, text


def test_the_superstep_limit_depends_on_cycles() -> None:
    chain = compile_canvas(canvas({f"n{i}": text([f"n{i + 1}"] if i < 199 else []) for i in range(200)}), CATALOG)
    assert chain.recursion_limit > 201
    cycle = compile_canvas(canvas({"a": text(["s"]), "s": switch(["a"], ["b"]), "b": text()}), CATALOG)
    assert cycle.recursion_limit == CYCLE_STEPS
