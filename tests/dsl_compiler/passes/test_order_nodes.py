from tests.fakes.canvas import canvas, diagnostics_of, node, plan_of, switch, text


def test_the_id_begin_has_priority() -> None:
    document = {"components": {"other": node("Begin", {}, ["a"]), "begin": node("Begin", {}, ["a"]), "a": text()}}
    assert plan_of(document).entry == "begin"
    assert diagnostics_of(document, "begin-multiple")[0].severity == "warning"


def test_a_single_begin_may_have_any_id() -> None:
    assert plan_of({"components": {"start": node("begin", {}, ["a"]), "a": text()}}).entry == "start"


def test_two_begins_without_the_usual_id_are_refused() -> None:
    document = {"components": {"one": node("Begin", {}, ["a"]), "two": node("Begin", {}, ["a"]), "a": text()}}
    assert diagnostics_of(document, "begin-multiple")[0].severity == "error"


def test_a_canvas_without_begin_is_refused() -> None:
    assert diagnostics_of({"components": {"a": text()}}, "begin-missing")[0].pointer == "/components"


def test_a_begin_with_invalid_params_is_not_reported_as_missing() -> None:
    document = canvas({"begin": node("Begin", {"mode": "sideways"}, ["a"]), "a": text()})
    assert diagnostics_of(document, "params-invalid")
    assert not diagnostics_of(document, "begin-missing")


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
