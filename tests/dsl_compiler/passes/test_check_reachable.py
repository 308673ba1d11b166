from tests.fakes.canvas import canvas, found, text


def test_an_island_is_told_of_and_does_not_refuse_the_canvas() -> None:
    (diagnostic,) = found(canvas({"a": text(), "island": text()}), "node-unreachable")
    assert (diagnostic.node, diagnostic.severity) == ("island", "warning")
