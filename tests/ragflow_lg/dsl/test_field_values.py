"""What each type of field accepts, and what it becomes."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.dsl.field_values import UnfitValueError, convert_value
from tests.harness.rows import each_row, read_rows

OPTIONS: list[Any] = ["red", 5, True, {"label": "Small", "value": 1.5}, {"label": "Large"}]


@each_row(
    ("type_name", "value", "expected"),
    [
        *read_rows("field_values"),
        *(("boolean", word, True) for word in ("true", "Yes", " on ", "1", 1, 1.0, True)),
        *(("boolean", word, False) for word in ("false", "NO", "off", "0", 0, 0.0, False)),
        ("integer", "1e300", 10**300),
        ("integer", 10**400, 10**400),
    ],
)
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
        *read_rows("unfit_field_values"),
        ("integer", math.inf, "a whole number"),
        ("number", math.nan, "a number"),
        ("number", "9" * 100_000, "a number of at most 308 digits"),
        ("object", "[" * 9999, "a JSON object"),
    ],
)
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
