from typing import Any

import pytest

from ragflow_lg.dsl_compiler.invalid_params import value_path
from tests.fakes.canvas import canvas, diagnostics_of, node, switch, text


def test_the_way_to_a_value_has_no_validators_in_it() -> None:
    assert value_path(("items", 0, "function-after[f()]", "literal['a']", "to")) == ["items", 0, "to"]


def wrong(operator: str = "~~") -> dict[str, Any]:
    router = switch(["a", "nowhere"], ["gone"], operator=operator)
    return {**router, "downstream": ["lost"]}


def test_wrong_params_of_a_router_hide_no_missing_target() -> None:
    for operator in ("~~", "="):
        document = canvas({"s": wrong(operator), "a": text()})
        assert {
            (d.severity, d.pointer.removeprefix("/components/s/")) for d in diagnostics_of(document, "target-unknown")
        } == {
            ("warning", "obj/params/conditions/0/to"),
            ("error", "obj/params/end_cpn_ids"),
            ("warning", "downstream"),
        }
    assert len(diagnostics_of(canvas({"s": wrong(), "a": text()}), "params-invalid")) == 1


@pytest.mark.parametrize("goto", [[], ["a"]])
def test_wrong_params_of_others_hide_no_missing_target(goto: list[str]) -> None:
    params = {"query": "sys.query", "operations": "explode", "exception_method": "goto", "exception_goto": goto}
    document = canvas({"x": node("ListOperations", params, ["nowhere"]), "a": text()}, ["x", "a"])
    (told,) = diagnostics_of(document, "target-unknown")
    assert (told.severity, told.pointer) == ("error", "/components/x/downstream")


@pytest.mark.parametrize("conditions", [[], "x", [{"to": []}], [{"to": 5, "items": 7}], [[]], [5, None], {"0": {}}])
def test_params_of_any_shape_stand_for_the_components_that_they_name(conditions: Any) -> None:
    router = node("Switch", {"conditions": conditions, "end_cpn_ids": ["a"]})
    document = canvas({"s": router, "a": text()})
    assert diagnostics_of(document, "params-invalid")
    assert diagnostics_of(document, "node-unreachable") == []
