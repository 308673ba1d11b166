from itertools import pairwise
from typing import Any

import pytest

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.values import JsonValue
from ragflow_lg.models.prompt_texts import PROMPTS
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

NONE: tuple[Any, ...] = (None, [], {})
NO_SCHEMA: tuple[Any, ...] = ({}, None, "x", {"value": {}})
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@each_row(
    ("outputs", "schema"),
    [
        ({"structured": CITY}, CITY),
        ({"content": {"type": "string"}, "structured": {"schema": CITY}}, CITY),
        ({"structured": {"structured": CITY}}, CITY),
        ({"structured": {"type": "object", "value": CITY}}, CITY),
        *((outputs, None) for outputs in NONE),
        *(({"structured": value}, None) for value in NO_SCHEMA),
        *(({"structured": {"properties": value}}, None) for value in NONE[1:]),
    ],
)
def test_a_schema_is_found_in_every_form(outputs: Any, schema: Any) -> None:
    assert find_schema(outputs) == schema


def test_the_schema_can_be_extracted_from_the_prompt() -> None:
    system = append_schema("Be brief.", CITY)
    assert system.startswith("Be brief.\n" + head_of("structured_output"))
    assert extract_schema(system) == CITY
    assert extract_schema(append_schema("Be brief.", CITY, PROMPTS["structured_output"].ragflow)) == CITY
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


@each_row(
    ("value", "problems"),
    [
        ({"city": "Rome", "more": 1}, []),
        ("", ["It is not a JSON object."]),
        ([], ["It is not a JSON object."]),
        ({}, ["'city' is a required property"]),
        ({"city": 1}, ["city: 1 is not of type 'string'"]),
    ],
)
def test_problems_are_described(value: Any, problems: list[str]) -> None:
    assert find_problems(value, CITY) == problems
    assert all(problem in build_correction(problems) for problem in problems)


def test_problems_are_few_and_short() -> None:
    schema = {"properties": {f"p{i}": {"type": "string"} for i in range(20)}}
    value: dict[str, JsonValue] = {f"p{i}": list[JsonValue]([1] * 5000) for i in range(20)}
    problems = find_problems(value, schema)
    assert len(problems) == 5
    assert all(len(problem) < 400 for problem in problems)


NAMES: dict[str, Any] = {"patternProperties": {"(a+)+$": False}, "additionalProperties": False, "properties": {"x": {}}}


@each_row("schema", [{"properties": {"x": {"pattern": "(a+)+$"}}}, NAMES])
def test_patterns_are_not_run(schema: dict[str, Any]) -> None:
    hostile = "a" * 40 + "b"
    assert find_problems({"x": hostile, hostile: 1}, schema) == []


def test_a_wrong_schema_checks_only_for_an_object() -> None:
    wrong = {"properties": {"a": {"type": "Strang"}}}
    assert "properties.a.type" in find_schema_problem(wrong)
    assert find_problems({"a": 1}, wrong) == []
    assert find_problems(1, wrong)
    assert find_schema_problem({"properties": 1, "type": 7})
    assert find_schema_problem(CITY) == ""


NAMED = [f"d{i}" for i in range(18)]
EXPLODES: dict[str, Any] = {a: {"allOf": [{"$ref": f"#/$defs/{b}"}] * 2} for a, b in pairwise(NAMED)}


@each_row(
    ("schema", "problem"),
    [
        ({"$ref": "#/$defs/x", "$defs": {"x": {"allOf": [{"$ref": "#/$defs/x"}]}}}, "endlessly"),
        ({"$ref": "#/$defs/d0", "$defs": {**EXPLODES, NAMED[-1]: {"type": "object"}}}, "endlessly"),
        ({"properties": {"a": {"$ref": "#/properties/b/const"}, "b": {"const": 5}}}, "not a schema"),
        ({"properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}}, "refers to something outside"),
    ],
)
def test_a_hostile_schema_is_an_error(schema: dict[str, Any], problem: str) -> None:
    with pytest.raises(ComponentError, match=problem):
        find_problems({"a": 1}, schema)


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
