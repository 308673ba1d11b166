from typing import Any

import pytest

from ragflow_lg.dsl_compiler.placeholder import placeholder_spec
from tests.fakes.canvas import canvas, diagnostics_of, node, switch, text
from tests.fakes.run import run_component
from tests.harness.rows import each_row


async def test_a_placeholder_fails_when_it_runs() -> None:
    error = (await run_component(placeholder_spec("Warp"))).error
    assert "The canvas has errors and cannot run" in str(error)


def invalid_router(operator: str = "~~") -> dict[str, Any]:
    router = switch(["a", "nowhere"], ["gone"], operator=operator)
    return {**router, "downstream": ["lost"]}


def test_invalid_params_of_a_router_hide_no_missing_target() -> None:
    for operator in ("~~", "="):
        document = canvas({"s": invalid_router(operator), "a": text()})
        assert {
            (d.severity, d.pointer.removeprefix("/components/s/")) for d in diagnostics_of(document, "target-unknown")
        } == {("warning", "obj/params/conditions/0/to"), ("error", "obj/params/end_cpn_ids"), ("warning", "downstream")}
    assert len(diagnostics_of(canvas({"s": invalid_router(), "a": text()}), "params-invalid")) == 1


@pytest.mark.parametrize("goto", [[], ["a"]])
def test_invalid_params_of_other_components_hide_no_missing_target(goto: list[str]) -> None:
    params = {"query": "sys.query", "operations": "explode", "exception_method": "goto", "exception_goto": goto}
    document = canvas({"x": node("ListOperations", params, ["nowhere"]), "a": text()}, ["x", "a"])
    (diagnostic,) = diagnostics_of(document, "target-unknown")
    assert (diagnostic.severity, diagnostic.pointer) == ("error", "/components/x/downstream")


@each_row("conditions", [[], "x", [{"to": []}], [{"to": 5, "items": 7}], [[]], [5, None], {"0": {}}])
def test_invalid_routes_lead_to_all_components_that_they_name(conditions: Any) -> None:
    router = node("Switch", {"conditions": conditions, "end_cpn_ids": ["a"]})
    document = canvas({"s": router, "a": text()})
    assert diagnostics_of(document, "params-invalid")
    assert diagnostics_of(document, "node-unreachable") == []
