from typing import Any

import pytest
from msgspec.structs import replace

from ragflow_lg.components.variable_assigner import variable_assigner
from ragflow_lg.services.services import StateLimits
from tests.fakes.canvas import canvas, diagnostics_of, node
from tests.fakes.regions import assign as assign_node
from tests.fakes.regions import loop, out, play_run, runner_of
from tests.fakes.run import Result, bind, run_component
from tests.fakes.services import fake_services
from tests.harness.rows import each_row, read_rows

NOT_LIST = "ERROR:VARIABLE_NOT_LIST"
NOT_NUMBER = "ERROR:VARIABLE_NOT_NUMBER or PARAMETER_NOT_NUMBER"


async def assign(*changes: tuple[Any, ...], **globals_: Any) -> Result:
    variables = [dict(zip(("variable", "operator", "parameter"), change, strict=False)) for change in changes]
    return await run_component(
        variable_assigner,
        {"variables": variables},
        outputs={"a": {"n": 1, "half": 0.5, "list": [1], "map": {"k": 1}, "true": True, "flags": [True, False]}},
        globals={f"env.{name}": value for name, value in globals_.items()},
    )


@each_row(("value", "operator", "parameter", "expected"), [*read_rows("assignments"), (2**62, "*=", 4, 2.0**64)])
async def test_an_operation_changes_the_variable(value: Any, operator: str, parameter: Any, expected: Any) -> None:
    result = await assign(("env.v", operator, parameter), v=value)
    assert (result.error, result.outputs) == (None, {})
    assert result.globals == {"env.v": expected}
    assert type(result.globals["env.v"]) is type(expected)


@each_row(
    ("value", "operator", "parameter", "code"),
    [
        ("x", "append", "a@n", NOT_LIST), ("", "append", "a@n", NOT_LIST), ("", "extend", "a@list", NOT_LIST),
        ({"k": 1}, "remove_first", None, NOT_LIST), (1, "+=", "a@list", NOT_NUMBER),
        ([True], "append", "a@n", "ERROR:PARAMETER_NOT_LIST_ELEMENT_TYPE"), ({}, "extend", "a@list", NOT_LIST),
        (5, "remove_first", None, NOT_LIST), ([1], "extend", "a@n", "ERROR:PARAMETER_NOT_LIST"),
        (["x"], "append", "a@n", "ERROR:PARAMETER_NOT_LIST_ELEMENT_TYPE"),
        ([True], "extend", "a@list", "ERROR:PARAMETER_NOT_LIST_ELEMENT_TYPE"), ("one", "+=", 1, NOT_NUMBER),
        ("", "+=", 1, NOT_NUMBER), (True, "+=", 1, NOT_NUMBER), (1, "+=", True, NOT_NUMBER),
        (1, "+=", "one", NOT_NUMBER), (1, "+=", "nan", NOT_NUMBER), (1e308, "*=", 10, NOT_NUMBER),
        (1, "+=", 10**400, NOT_NUMBER), (1, "/=", 0, "ERROR:DIVIDE_BY_ZERO"),
    ],
)  # fmt: skip
async def test_an_impossible_change_leaves_the_variable(value: Any, operator: str, parameter: Any, code: str) -> None:
    result = await assign(("env.v", operator, parameter), ("env.w", "set", "done"), v=value, w="")
    assert result.error is None
    assert result.outputs == {"errors": [f"env.v: {code}"]}
    assert result.globals == {"env.w": "done"}


@pytest.mark.parametrize(
    ("limits", "text"), [(StateLimits(100, 1_000_000), "state_chars"), (StateLimits(1_000_000, 50), "50 entries")]
)
async def test_a_list_that_grows_in_a_loop_stays_within_the_limits(limits: StateLimits, text: str) -> None:
    body = {"one": assign_node("env.l", "begin@items", "extend")}
    components = {**loop(body, count=100), **out("{env.l}")}
    services = replace(fake_services(), state_limits=limits)
    variables: dict[str, Any] = {"l": {"name": "l", "type": "array<object>", "value": []}}
    runner = runner_of(components, services=services, variables=variables)
    run = runner.start("s", {"query": "q", "inputs": {"items": {"value": [{"k": "v"}]}}})
    await play_run(run)
    assert run.status == "failed"
    assert text in (run.error or "")


async def test_later_changes_see_earlier_ones() -> None:
    result = await assign(("env.v", "+=", 1), ("env.v", "*=", 10), ("env.t", "set", "{env.v}"), v=1, t="")
    assert result.globals == {"env.v": 20, "env.t": "20"}


async def test_outputs_of_other_nodes_are_patched_and_lists_copied() -> None:
    result = await assign(("a@map.deep.k", "set", "x"), ("env.l", "overwrite", "a@list"), ("env.l", "append", "a@n"))
    assert result.patches == {"a": {"map": {"k": 1, "deep": {"k": "x"}}}}
    assert result.globals == {"env.l": [1, 1]}


@each_row("change", [("", "set", "x"), ("env.v", "", "x"), ("env.v",), ("env.v", "set", None), ("env.v", "+=")])
async def test_an_incomplete_change_is_an_error(change: tuple[Any, ...]) -> None:
    assert (await assign(change, v=1)).error == "Variable is not complete."


@each_row(("operator", "parameter"), [("overwrite", "literal text"), ("append", 5), ("extend", [1])])
async def test_some_operators_need_a_reference(operator: str, parameter: Any) -> None:
    result = await assign(("env.v", operator, parameter), v=[])
    assert result.error == f"{operator} needs a reference, not {str(parameter)!r}."


@pytest.mark.parametrize(
    ("change", "value"),
    [(("env.v", "set", "{env.v}{env.v}"), "xx"), (("env.v", "extend", "env.v"), [1]), (("env.v", "*=", "{env.v}"), 9)],
)
async def test_repeated_doubling_ends_soon(change: tuple[Any, ...], value: Any) -> None:
    result = await assign(*[change] * 60, v=value)
    assert result.error or result.outputs["errors"]


async def test_variables_that_are_not_a_list_change_nothing() -> None:
    result = await run_component(variable_assigner, {"variables": "x"})
    assert (result.error, result.globals, result.outputs) == (None, {}, {})
    assert variable_assigner.output_names(bind(variable_assigner, {})) == ("errors",)


def findings(change: dict[str, Any]) -> list[str]:
    document = canvas({"a": node("VariableAssigner", {"variables": [change]})})
    return [diagnostic.severity for diagnostic in diagnostics_of(document, "params-invalid")]


@each_row(
    "change",
    [
        {"variable": "env.v", "operator": "overwrite", "parameter": "literal"},
        {"variable": "env.v", "operator": "set"},
        {"operator": "set", "parameter": "x"},
        {"variable": "env.v", "operator": "+=", "parameter": "one"},
        {"variable": "env.v", "operator": "*=", "parameter": True},
        {"variable": "env.v", "operator": "/=", "parameter": [1]},
    ],
)
def test_certain_failures_are_reported(change: dict[str, Any]) -> None:
    assert findings(change) == ["warning"]


@each_row("parameter", [2, "2", " 1.5", "{env.v}", "env.v", "a@n", "1{env.v}"])
def test_what_may_be_a_number_is_not_reported(parameter: Any) -> None:
    assert findings({"variable": "env.v", "operator": "+=", "parameter": parameter}) == []


async def test_the_changes_of_a_node_copy_a_limited_amount() -> None:
    numbers = [1] * 90_000
    few = await assign(*[("env.n", "append", "a@n")] * 10, n=numbers)
    assert len(few.globals["env.n"]) == 90_010
    many = await assign(*[("env.n", "append", "a@n")] * 1000, n=numbers)
    assert many.error == "The changes copy more than 2,000,000 entries."
