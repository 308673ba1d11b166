from tests.fakes.canvas import canvas, diagnostics_of
from tests.fakes.regions import assign, iteration, out, text


def test_rounds_side_by_side_may_write_what_is_their_own() -> None:
    body = {"a": text(["w"]), "w": assign("a@result", "ii@item")}
    assert not diagnostics_of(canvas({**iteration(body, {}, max_concurrency=4), **out("x")}), "region-parallel")


def test_what_they_share_is_named_with_its_place() -> None:
    body = {"a": text(["w"]), "w": assign("env.x", "ii@item")}
    (diagnostic,) = diagnostics_of(canvas({**iteration(body, {}, max_concurrency=4), **out("x")}), "region-parallel")
    assert (diagnostic.node, diagnostic.pointer) == ("w", "/components/w")
    assert "env.x" in diagnostic.message
    assert not diagnostics_of(canvas({**iteration(body, {}, max_concurrency=1), **out("x")}), "region-parallel")
