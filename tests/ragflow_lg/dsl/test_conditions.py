from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.base.values import JsonValue
from ragflow_lg.dsl.conditions import FILTERS, OPERATORS, filter_name, filter_text, operator_name, parse_condition
from tests.harness.rows import each_row, read_rows

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=9,
)


@given(json_values, st.sampled_from(sorted(OPERATORS)), json_values)
def test_no_operator_raises(left: Any, operator: str, right: Any) -> None:
    assert isinstance(OPERATORS[operator](left, right), bool)


@given(json_values, st.sampled_from(sorted(FILTERS)), json_values)
def test_no_filter_raises(left: Any, operator: str, right: Any) -> None:
    assert isinstance(FILTERS[operator](filter_text(left), filter_text(right)), bool)


@given(json_values, json_values)
def test_opposites_exclude_each_other(left: Any, right: Any) -> None:
    for one, other in (("=", "≠"), ("contains", "not contains"), ("empty", "not empty")):
        assert OPERATORS[one](left, right) is not OPERATORS[other](left, right)


@each_row(
    ("left", "operator", "right", "expected"),
    [
        *read_rows("switch_operators"),
        (2**53 + 1, "=", str(2**53 + 1), True),
        (10**400, ">", "1", True),
        ("9" * 5000, ">", "1", True),
    ],
)
def test_operators_of_switch(left: Any, operator: str, right: Any, expected: bool) -> None:
    assert OPERATORS[operator](left, right) is expected


@each_row(
    ("text", "operator", "expected_text", "expected"),
    [
        ("a", "=", "A", False), ("a", "≠", "A", True), ("abc", "contains", "b", True),
        ("abc", "not contains", "b", False), ("abc", "start with", "ab", True), ("abc", "end with", "ab", False),
        ("", "empty", "", True), ("", "not empty", "", False),
    ],
)  # fmt: skip
def test_operators_of_filters(text: str, operator: str, expected_text: str, expected: bool) -> None:
    assert FILTERS[operator](text, expected_text) is expected


def test_filters_see_booleans_as_python_writes_them() -> None:
    values: list[JsonValue] = [True, None, 1.0, ["ü"]]
    assert [filter_text(value) for value in values] == ["True", "", "1.0", '["ü"]']


@each_row(
    ("name", "expected"),
    [
        ("==", "="), (" IS ", "="), ("!=", "≠"), ("<>", "≠"), ("is not", "≠"), (">=", "≥"), ("<=", "≤"),
        ("Contains", "contains"),
    ],
)  # fmt: skip
def test_synonyms_are_accepted(name: str, expected: str) -> None:
    assert operator_name(name) == expected


def test_the_error_for_an_unknown_operator_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no operator 'about'; use one of contains"):
        operator_name("about")
    with pytest.raises(ValueError, match="no operator '>'"):
        filter_name(">")
    assert filter_name(None) == filter_name("") == "="


@each_row(
    ("text", "expected"),
    [
        ("{sys.conversation_turns} > 5", ("and", [("{sys.conversation_turns}", ">", "5")])),
        ("{User:Profile@premium} == true", ("and", [("{User:Profile@premium}", "=", "true")])),
        ("a@x!='no'", ("and", [("a@x", "≠", "no")])),
        ("{a@x} contains 'a and b' AND env.n <= 3 ", ("and", [("{a@x}", "contains", "a and b"), ("env.n", "≤", "3")])),
        ("{a@x} >= 1 || {b@y} == null", ("or", [("{a@x}", "≥", "1"), ("{b@y}", "=", None)])),
        ('{a@x} == "null"', ("and", [("{a@x}", "=", "null")])),
        ("", None),
        ("{a@x}", None),
        ("{a@x} > 1 and", None),
        ("{a@x} > 1 and ", None),
        ("{a@x} > 1 and {b@y} > 2 or {c@z} > 3", None),
        ("({a@x} > 1)", None),
        ("{a@x} > two words", None),
        ("{a@x} >> 5", None),
        ("__import__('os').system('x')", None),
    ],
)
def test_conditions_are_parsed(text: str, expected: Any) -> None:
    assert parse_condition(text) == expected


@given(st.text(alphabet="{}a@x=<>! '\"&|and or\n", max_size=60))
def test_any_text_is_a_condition_or_none(text: str) -> None:
    parsed = parse_condition(text)
    assert parsed is None or (parsed[0] in ("and", "or") and parsed[1])
