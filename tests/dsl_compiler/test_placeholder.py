from typing import Any

import pytest

from ragflow_lg.component.spec import AnySpec, Route
from ragflow_lg.dsl_compiler.placeholder import is_placeholder, path_to_value, placeholder_spec, rename_old_keys
from tests.fakes.canvas import CATALOG, canvas, diagnostics_of, node, switch, text
from tests.fakes.run import run_component
from tests.harness.rows import each_row


def test_a_placeholder_accepts_any_params_and_has_any_output() -> None:
    spec = placeholder_spec("Warp")
    params = spec.params.model_validate({"whatever": [1]})
    assert spec.output_names(params) is None
    assert (spec.name, spec.kind) == ("Warp", "plain")
    assert placeholder_spec("Begin", kind="entry").kind == "entry"
    router = placeholder_spec("Switch", routes=[Route("Else", ("a", "b"))])
    assert (router.kind, [route.targets for route in router.routes(params)]) == ("route", [("a", "b")])
    assert is_placeholder(router)


async def test_a_placeholder_fails_when_it_runs() -> None:
    error = (await run_component(placeholder_spec("Warp"))).error
    assert "The canvas has errors and cannot run" in str(error)


def test_the_path_to_a_value_has_no_validators() -> None:
    assert path_to_value(("items", 0, "function-after[f()]", "literal['a']", "to")) == ["items", 0, "to"]


def invalid_router(operator: str = "~~") -> dict[str, Any]:
    router = switch(["a", "nowhere"], ["gone"], operator=operator)
    return {**router, "downstream": ["lost"]}


def test_invalid_params_of_a_router_hide_no_missing_target() -> None:
    for operator in ("~~", "="):
        document = canvas({"s": invalid_router(operator), "a": text()})
        assert {
            (d.severity, d.pointer.removeprefix("/components/s/")) for d in diagnostics_of(document, "target-unknown")
        } == {
            ("warning", "obj/params/conditions/0/to"),
            ("error", "obj/params/end_cpn_ids"),
            ("warning", "downstream"),
        }
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


def spec(name: str) -> AnySpec:
    component = CATALOG.get(name)
    assert component is not None
    return component


def test_an_old_key_is_renamed_if_the_component_has_the_new_one() -> None:
    params = {"a": 1, "llm_enabled_tools": [2], "tools": []}
    assert rename_old_keys(params, spec("Agent")) == {"a": 1, "tools": [2]}


def test_an_old_key_stays_if_the_new_one_is_unknown_or_set() -> None:
    for params, name in (({"llm_enabled_tools": [2]}, "LLM"), ({"llm_enabled_tools": [2], "tools": [3]}, "Agent")):
        assert rename_old_keys(params, spec(name)) is params


def test_only_an_iteration_yields_items() -> None:
    assert [name for name in ("Iteration", "Loop", "Agent") if spec(name).yields_items] == ["Iteration"]
