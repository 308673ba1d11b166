from itertools import pairwise
from typing import Any

import pytest

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.values import JsonValue
from ragflow_lg.models.structured_answer import (
    append_schema,
    build_correction,
    extract_schema,
    find_problems,
    find_schema,
    find_schema_problem,
    read_answer,
)
from tests.fakes.prompts import head_of
from tests.harness.rows import each_row

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.mark.parametrize(
    "outputs",
    [
        {"structured": CITY},
        {"content": {"type": "string"}, "structured": {"schema": CITY}},
        {"structured": {"structured": CITY}},
        {"structured": {"type": "object", "value": CITY}},
    ],
)
def test_a_schema_is_found_in_every_form(outputs: dict[str, Any]) -> None:
    assert find_schema(outputs) == CITY


@each_row(
    "outputs",
    [
        None,
        [],
        {},
        {"structured": {}},
        {"structured": None},
        {"structured": "x"},
        {"structured": {"value": {}}},
        {"structured": {"properties": {}}},
        {"structured": {"properties": []}},
    ],
)
def test_no_schema_means_no_structured_answer(outputs: Any) -> None:
    assert find_schema(outputs) is None


def test_the_schema_can_be_extracted_from_the_prompt() -> None:
    system = append_schema("Be brief.", CITY)
    assert system.startswith("Be brief.\n" + head_of("structured_output"))
    assert extract_schema(system) == CITY
    assert extract_schema("Be brief.") is None
    assert extract_schema(head_of("structured_output") + "{") is None


@each_row(
    ("answer", "expected"),
    [
        ('{"a": 1}', {"a": 1}),
        ('<think>{"a": 2}</think>{"a": 1}', {"a": 1}),
        ('Here it is:\n```json\n{"a": 1}\n```', {"a": 1}),
        ('{"a": "one", "b": [1, 2', {"a": "one", "b": [1, 2]}),
        ("{'a': 1,}", {"a": 1}),
        ("[1]", [1]),
        ("sorry, no", ""),
        ("", ""),
        ("{'a': " * 10_000, None),
        ('{"a":' * 8_000, None),
    ],
)
def test_answers_are_read_leniently(answer: str, expected: Any) -> None:
    assert read_answer(answer) == expected


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("", "It is not a JSON object."),
        ([], "It is not a JSON object."),
        ({}, "'city' is a required property"),
        ({"city": 1}, "city: 1 is not of type 'string'"),
    ],
)
def test_problems_are_described(value: Any, problem: str) -> None:
    assert find_problems(value, CITY) == [problem]
    assert problem in build_correction([problem])


def test_problems_are_few_and_short() -> None:
    schema = {"properties": {f"p{i}": {"type": "string"} for i in range(20)}}
    value: dict[str, JsonValue] = {f"p{i}": list[JsonValue]([1] * 5000) for i in range(20)}
    problems = find_problems(value, schema)
    assert len(problems) == 5
    assert all(len(problem) < 400 for problem in problems)


@pytest.mark.parametrize(
    "keyword",
    [
        {"pattern": "(a+)+$"},
        {"patternProperties": {"(a+)+$": False}, "additionalProperties": False, "properties": {"x": {}}},
    ],
)
def test_patterns_are_not_run(keyword: dict[str, Any]) -> None:
    hostile = "a" * 40 + "b"
    schema = {"properties": {"x": keyword if "pattern" in keyword else {}}, **({} if "pattern" in keyword else keyword)}
    assert find_problems({"x": hostile, hostile: 1}, schema) == []


def test_a_wrong_schema_checks_only_for_an_object() -> None:
    wrong = {"properties": {"a": {"type": "Strang"}}}
    assert "properties.a.type" in find_schema_problem(wrong)
    assert find_problems({"a": 1}, wrong) == []
    assert find_problems(1, wrong)
    assert find_schema_problem({"properties": 1, "type": 7})
    assert find_schema_problem(CITY) == ""


def test_a_schema_without_end_is_an_error() -> None:
    endless = {"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"allOf": [{"$ref": "#/$defs/x"}]}}}
    with pytest.raises(ComponentError, match="endlessly"):
        find_problems({"a": 1}, endless)


def test_a_schema_that_explodes_is_an_error() -> None:
    names = [f"d{i}" for i in range(18)]
    defs: dict[str, Any] = {a: {"allOf": [{"$ref": f"#/$defs/{b}"}] * 2} for a, b in pairwise(names)}
    defs[names[-1]] = {"type": "string"}
    with pytest.raises(ComponentError, match="endlessly"):
        find_problems({"a": "x"}, {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": defs})


def deep_schema(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    return schema


def test_a_deep_schema_is_checked_and_a_deeper_one_is_a_problem() -> None:
    assert find_schema_problem(deep_schema(19)) == ""
    value: Any = 1
    for _ in range(19):
        value = {"a": value}
    assert find_problems(value, deep_schema(19)) == [f"{'.'.join('a' * 19)}: 1 is not of type 'string'"]
    assert find_schema_problem(deep_schema(5000)) == "it is nested deeper than 40 levels"


def test_a_value_may_nest_by_references() -> None:
    schema = {"properties": {"a": {"$ref": "#"}, "b": {"type": "string"}}}
    assert find_problems({"a": {"a": {"a": {"b": 1}}}}, schema) == ["a.a.a.b: 1 is not of type 'string'"]


def test_a_reference_to_a_value_that_is_not_a_schema_is_an_error() -> None:
    schema = {"properties": {"a": {"$ref": "#/properties/b/const"}, "b": {"const": 5}}}
    with pytest.raises(ComponentError, match="not a schema"):
        find_problems({"a": 1}, schema)


def test_a_schema_never_causes_a_request() -> None:
    schema = {"properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}}
    with pytest.raises(ComponentError, match="refers to something outside"):
        find_problems({"a": 1}, schema)
