"""What each type of field accepts, and what it becomes."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.dsl.field_values import UnfitValueError, convert_value
from tests.harness.rows import each_row

OPTIONS: list[Any] = ["red", 5, True, {"label": "Small", "value": 1.5}, {"label": "Large"}]


@each_row(
    ("type_name", "value", "expected"),
    [
        *(("boolean", word, True) for word in ("true", "Yes", " on ", "1", 1, 1.0, True)),
        *(("boolean", word, False) for word in ("false", "NO", "off", "0", 0, 0.0, False)),
        ("integer", "7", 7), ("integer", " 7 ", 7), ("integer", "７", 7), ("integer", "1e3", 1000), ("integer", 7.0, 7),
        ("integer", "7.0", 7), ("integer", "-0", 0), ("Integer", "12345678901234567890", 12345678901234567890),
        ("integer", "1e300", 10**300), ("integer", 10**400, 10**400),
        ("number", "7", 7), ("number", "7.50", 7.5), ("number", "1e3", 1000.0), ("number", 7.0, 7.0), ("number", 0, 0),
        ("number", "1e-999999", 0.0),
        ("object", '{"a": [1]}', {"a": [1]}), ("object", "[1]", [1]), ("object", {"a": "1"}, {"a": "1"}),
        ("line", 5, "5"), ("paragraph", True, "true"), ("text", "false", "false"), ("line", "", ""),
        ("line", [1], [1]), ("paragraph", {"a": 1}, {"a": 1}),
        ("list", ["1", 2], ["1", 2]), ("list", "[1, 2]", [1, 2]), ("checkbox", "a", ["a"]), ("list", 0, [0]),
        ("array<number>", '["1", 2]', [1, 2]), ("array<string>", [1], ["1"]), ("Array<Object>", [{"a": 1}], [{"a": 1}]),
        ("line", None, None), ("boolean", None, None), ("anything", "false", "false"), ("options", "x", "x"),
    ],
)  # fmt: skip
def test_a_value_becomes_the_type_of_its_field(type_name: str, value: Any, expected: Any) -> None:
    converted = convert_value(value, type_name)
    assert converted == expected
    assert type(converted) is type(expected)


@each_row(("value", "expected"), [("red", "red"), ("5", 5), (5, 5), ("true", True), ("1.5", 1.5), ("Large", "Large")])
def test_an_option_keeps_its_own_value(value: Any, expected: Any) -> None:
    converted = convert_value(value, "options", OPTIONS)
    assert converted == expected
    assert type(converted) is type(expected)
    assert convert_value([value], "multi-select", OPTIONS) == [expected]


@each_row(
    ("type_name", "value", "expected"),
    [
        ("boolean", "maybe", "true or false"), ("boolean", 2, "true or false"), ("boolean", [], "true or false"),
        ("integer", "1.5", "a whole number"), ("integer", True, "a whole number"),
        ("integer", math.inf, "a whole number"), ("integer", "inf", "a whole number"),
        ("integer", {}, "a whole number"), ("integer", "7 8", "a whole number"),
        ("number", "NaN", "a number"), ("number", math.nan, "a number"), ("number", False, "a number"),
        ("number", "1_0", "a number"), ("number", "1e999999999", "a number of at most 308 digits"),
        ("number", "9" * 100_000, "a number of at most 308 digits"),
        ("object", "5", "a JSON object"), ("object", '{"a": Infinity}', "a JSON object"),
        ("object", "[" * 9999, "a JSON object"),
        ("list", {"a": 1}, "a list"),
        ("array<integer>", ["1", "x"], "a list, each entry a whole number"),
    ],
)  # fmt: skip
def test_what_a_field_does_not_accept_is_refused(type_name: str, value: Any, expected: str) -> None:
    with pytest.raises(UnfitValueError) as raised:
        convert_value(value, type_name)
    assert str(raised.value) == expected


def test_a_message_names_some_of_many_options() -> None:
    with pytest.raises(UnfitValueError) as raised:
        convert_value("x", "options", list(range(1000)))
    assert str(raised.value).endswith("18, 19, …")


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)


@given(st.sampled_from(["boolean", "integer", "number", "object", "line", "list", "array<boolean>"]), _SCALARS)
def test_a_converted_value_is_converted_to_itself(type_name: str, value: Any) -> None:
    try:
        converted = convert_value(value, type_name)
    except UnfitValueError:
        return
    assert convert_value(converted, type_name) == converted
