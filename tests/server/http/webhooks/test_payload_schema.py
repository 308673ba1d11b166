from __future__ import annotations

from typing import Any

import pytest

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.webhooks.payload_schema import select_declared_fields


def take(given: dict[str, Any], properties: dict[str, Any], *required: str, section: str = "body") -> dict[str, Any]:
    schema = {section: {"type": "object", "properties": properties, "required": list(required)}}
    return select_declared_fields(section, given, schema)


def of(kind: str, value: Any) -> Any:
    return take({"x": value}, {"x": {"type": kind}})["x"]


def test_only_declared_fields_pass_and_missing_ones_are_empty() -> None:
    kinds = ("string", "number", "boolean", "object", "file", "null", "array", "array<number>")
    properties = {kind: {"type": kind} for kind in kinds}
    assert list(take({"other": 1}, properties).values()) == ["", 0, False, {}, [], None, [], []]
    assert take({"a": "x", "b": "y"}, {"a": {}}) == {"a": "x"}
    assert select_declared_fields("body", {"a": 1}, {}) == {}
    assert select_declared_fields("body", {"a": 1}, {"body": [], "query": None}) == {}


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("string", "3", "3"),
        ("number", "3", 3),
        ("number", " -2.5 ", -2.5),
        ("number", 4, 4),
        ("boolean", "TRUE", True),
        ("boolean", "1", True),
        ("boolean", "0", False),
        ("boolean", False, False),
        ("object", '{"a": 1}', {"a": 1}),
        ("object", {}, {}),
        ("file", "text", "text"),
        ("file", ["a", "b"], ["a", "b"]),
        ("null", "null", None),
        ("null", None, None),
        ("array", '[1, "a"]', [1, "a"]),
        ("array<string>", ["a"], ["a"]),
        ("Array<number>", '["1", 2]', [1, 2]),
        ("array<object>", [{"a": 1}, "{}"], [{"a": 1}, {}]),
    ],
)
def test_values_are_read_as_what_they_should_be(kind: str, value: Any, expected: Any) -> None:
    found = of(kind, value)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("string", 3, "body.x type mismatch: expected string, got number"),
        ("string", None, "got null"),
        ("number", "x", "got string"),
        ("number", True, "got boolean"),
        ("number", "nan", "mismatch"),
        ("number", "1e999", "mismatch"),
        ("number", "1_000", "mismatch"),
        ("number", "9" * 500, "mismatch"),
        ("number", "\u0663", "mismatch"),
        ("boolean", "yes", "mismatch"),
        ("boolean", 1, "mismatch"),
        ("object", "[1]", "mismatch"),
        ("object", "{", "mismatch"),
        ("object", [], "got array"),
        ("file", 7, "mismatch"),
        ("null", "x", "mismatch"),
        ("array", "{}", "mismatch"),
        ("array<number>", ["a"], r"body.x\[0\] type mismatch"),
        ("colour", "red", "a type that there is not: 'colour'"),
        ("array<colour>", [], "a type that there is not"),
        ("array<", [], "a type that there is not"),
    ],
)
def test_what_does_not_fit_is_named(kind: str, value: Any, told: str) -> None:
    with pytest.raises(RequestError, match=told) as refused:
        of(kind, value)
    assert refused.value.number == 400


def test_required_fields_have_to_be_there() -> None:
    with pytest.raises(RequestError, match=r"^body missing required field: x$"):
        take({}, {"x": {"type": "string"}}, "x")
    with pytest.raises(RequestError, match=r"^query missing required field: y$"):
        take({}, {}, "y", section="query")
    assert take({"y": 1}, {}, "y") == {}


def test_names_of_headers_have_no_case() -> None:
    given = {"x-event": "push"}
    assert take(given, {"X-Event": {"type": "string"}}, "X-Event", section="headers") == {"X-Event": "push"}
    assert take(given, {}, "X-EVENT", section="headers") == {}


def test_the_items_of_an_array_may_be_declared_by_themselves() -> None:
    assert take({"x": ["1"]}, {"x": {"type": "array", "items": {"type": "number"}}}) == {"x": [1]}
