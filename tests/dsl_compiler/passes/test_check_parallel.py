from tests.fakes.canvas import canvas, diagnostics_of
from tests.fakes.regions import assign, iteration, out, text


def test_parallel_rounds_may_write_their_own_values() -> None:
    body = {"a": text(["w"]), "w": assign("a@result", "ii@item")}
    assert not diagnostics_of(canvas({**iteration(body, {}, max_concurrency=4), **out("x")}), "region-parallel")


def test_a_write_to_a_shared_value_is_reported() -> None:
    body = {"a": text(["w"]), "w": assign("env.x", "ii@item")}
    (diagnostic,) = diagnostics_of(canvas({**iteration(body, {}, max_concurrency=4), **out("x")}), "region-parallel")
    assert (diagnostic.node, diagnostic.pointer) == ("w", "/components/w")
    assert "env.x" in diagnostic.message
    assert not diagnostics_of(canvas({**iteration(body, {}, max_concurrency=1), **out("x")}), "region-parallel")
