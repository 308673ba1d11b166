from tests.fakes.canvas import canvas, diagnostics_of, text


def test_a_second_node_with_a_title_is_reported() -> None:
    graph = {"nodes": [{"id": "a", "data": {"name": "Twin"}}, {"id": "b", "data": {"name": "Twin"}}]}
    (diagnostic,) = diagnostics_of(canvas({"a": text(["b"]), "b": text()}, graph=graph), "title-duplicate")
    assert (diagnostic.node, diagnostic.title) == ("b", "Twin")
