from tests.fakes.canvas import canvas, diagnostics_of, plan_of, switch, text


def test_a_cycle_with_an_exit_is_a_warning_with_its_path() -> None:
    document = canvas({"a": text(["s"]), "s": switch(["a"], ["end"]), "end": text()})
    assert plan_of(document).cyclic == {"a", "s"}
    (diagnostic,) = diagnostics_of(document, "flow-cycle")
    assert diagnostic.severity == "warning"
    assert "a → s → a" in diagnostic.message


def test_a_cycle_without_an_exit_is_refused() -> None:
    (diagnostic,) = diagnostics_of(canvas({"a": text(["b"]), "b": text(["a"])}), "flow-cycle")
    assert diagnostic.severity == "error"


def test_a_node_that_leads_to_itself_is_a_cycle() -> None:
    assert diagnostics_of(canvas({"a": text(["a"])}), "flow-cycle")[0].severity == "error"
