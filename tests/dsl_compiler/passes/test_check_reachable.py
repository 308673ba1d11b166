from tests.fakes.canvas import canvas, diagnostics_of, text


def test_an_unreachable_node_is_a_warning() -> None:
    (diagnostic,) = diagnostics_of(canvas({"a": text(), "island": text()}), "node-unreachable")
    assert (diagnostic.node, diagnostic.severity) == ("island", "warning")
