from typing import Any

import pytest
from pydantic import ValidationError

from ragflow_lg.component.spec import Route
from ragflow_lg.components.switch import switch
from tests.fakes.canvas import canvas, diagnostics_of, node
from tests.fakes.run import bind, run_component
from tests.harness.rows import each_row


def case(*items: tuple[str, str, Any], to: Any = "yes", logical: str | None = "and") -> dict[str, Any]:
    tests = [{"cpn_id": ref, "operator": operator, "value": value} for ref, operator, value in items]
    return {"logical_operator": logical, "items": tests, "to": to}


async def targets_of(*cases: dict[str, Any], **globals_: Any) -> list[str]:
    result = await run_component(
        switch,
        {"conditions": list(cases), "end_cpn_ids": ["no"]},
        outputs={"a": {"x": 5, "items": [1, 2]}},
        globals={f"env.{name}": value for name, value in globals_.items()},
    )
    assert result.error is None
    assert list(result.targets) == result.outputs["_next"]
    return result.outputs["_next"]


async def test_the_first_matching_case_wins_or_else_is_chosen() -> None:
    cases = (case(("a@x", "<", "5"), to="one"), case(("a@x", "=", "5"), to=["two", "too"]), case(("a@x", "=", 5)))
    assert await targets_of(*cases) == ["two", "too"]
    assert await targets_of(case(("a@x", ">", "5"))) == ["no"]


@each_row(
    ("logical", "first", "second", "expected"),
    [
        ("and", "5", "6", ["no"]), ("and", "5", "5", ["yes"]), (None, "5", "6", ["yes"]), ("", "5", "6", ["yes"]),
        ("AND", "5", "6", ["yes"]), (None, "6", "6", ["no"]), ("or", "5", "6", ["yes"]), ("xor", "5", "6", ["yes"]),
        ("or", "6", "6", ["no"]),
    ],
)  # fmt: skip
async def test_items_are_combined(logical: str | None, first: str, second: str, expected: list[str]) -> None:
    assert await targets_of(case(("a@x", "=", first), ("{ a@x }", "=", second), logical=logical)) == expected


async def test_a_blank_row_is_skipped_and_alone_never_matches() -> None:
    assert await targets_of(case(("", "", None)), case(("", "?", ""), ("a@x", "=", "5"))) == ["yes"]
    assert await targets_of(case(("", "=", "")), case()) == ["no"]


async def test_a_literal_may_contain_references() -> None:
    assert await targets_of(case(("a@x", "=", "{env.five}")), five=5) == ["yes"]
    assert await targets_of(case(("env.text", "=", "<{a@x}>")), text="<5>") == ["yes"]
    assert await targets_of(case(("a@items", "=", [1, 2]))) == ["yes"]


async def test_an_unknown_component_is_an_error() -> None:
    result = await run_component(switch, {"conditions": [case(("ghost@x", "=", "1"))], "end_cpn_ids": ["no"]})
    assert result.error == "Can't find variable: 'ghost@x'"


def test_routes_are_named_by_their_position() -> None:
    params = bind(switch, {"conditions": [case(to="a"), case(to=["b", "c"])], "end_cpn_ids": "d"})
    assert list(switch.routes(params)) == [
        Route("Case 1", ("a",), ("conditions", 0, "to")),
        Route("Case 2", ("b", "c"), ("conditions", 1, "to")),
        Route("Else", ("d",), ("end_cpn_ids",)),
    ]
    assert switch.limit_s(params) == 3.0


async def test_simplified_cases_are_read() -> None:
    between = {"condition": "{a@x} > 5 and {a@x} < 9", "to": ["between"]}
    either = {"condition": '{a@x} == 5 or {env.t} == "a and b"', "to": ["either"]}
    params = {"cases": [between, either], "default": ["rest"]}
    for number, text, target in ((7, "", "between"), (1, "a and b", "either"), (1, "", "rest")):
        result = await run_component(switch, params, outputs={"a": {"x": number}}, globals={"env.t": text})
        assert result.targets == (target,)


@each_row("clauses", [None, [], {}, "env.t", [7], [{}], [{"left": " "}], [{"left": "env.t"}, {"right": "b"}]])
def test_clauses_that_cannot_be_read_are_an_error(clauses: Any) -> None:
    with pytest.raises(ValidationError, match="clauses must be a list of maps"):
        bind(switch, {"conditions": [{"clauses": clauses, "to": "yes"}], "end_cpn_ids": ["no"]})
    bind(switch, {"conditions": [{"clauses": [], "items": [], "to": "yes"}], "end_cpn_ids": ["no"]})


async def test_the_clauses_of_ragflow_1_are_read() -> None:
    clauses = [{"left": "{{a@x}}", "op": ">=", "right": "5"}, {"left": "env.t", "op": "contains", "right": "b"}]
    both, either = {"clauses": clauses, "to": "both"}, {"clauses": clauses, "op": "or", "to": "either", "items": []}
    params = {"conditions": [both, either], "default": "rest"}
    for number, text, target in ((5, "abc", "both"), (1, "b", "either"), (5, "", "either"), (1, "", "rest")):
        result = await run_component(switch, params, outputs={"a": {"x": number}}, globals={"env.t": text})
        assert result.targets == (target,)


@pytest.mark.parametrize(("logical", "problem"), [(None, "is missing"), ("", "is missing"), ("AND", "is 'AND'")])
def test_a_logical_operator_that_is_not_known_is_reported(logical: str | None, problem: str) -> None:
    tests = [{"cpn_id": "sys.query", "operator": "=", "value": value} for value in "ab"]
    conditions = [{"items": tests, "logical_operator": logical, "to": "out"}]
    switch_node = node("Switch", {"conditions": conditions, "end_cpn_ids": ["out"]}, ["out"])
    document = canvas({"sw": switch_node, "out": node("Message", {"content": ["x"]})})
    assert [d.message for d in diagnostics_of(document, "params-invalid")] == [
        f"The logical operator {problem}, so one item that is true is enough."
    ]
