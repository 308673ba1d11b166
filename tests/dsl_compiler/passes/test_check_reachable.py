from tests.fakes.canvas import canvas, diagnostics_of, text


def test_an_island_is_told_of_and_does_not_refuse_the_canvas() -> None:
    (diagnostic,) = diagnostics_of(canvas({"a": text(), "island": text()}), "node-unreachable")
    assert (diagnostic.node, diagnostic.severity) == ("island", "warning")
