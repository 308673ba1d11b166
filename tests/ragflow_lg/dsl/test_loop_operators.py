from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.dsl.loop_operators import OPERATORS, holds
from tests.harness.rows import each_row

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(JSON, st.sampled_from(sorted(OPERATORS)), JSON)
def test_no_operator_raises(left: Any, name: str, right: Any) -> None:
    assert holds(left, name, right) in (True, False)


@each_row(
    ("left", "name", "right", "expected"),
    [
        ("Apple", "contains", "pp", True), ("Apple", "contains", "PP", False), ("Apple", "not contains", "x", True),
        ("Apple", "start with", "App", True), ("Apple", "end with", "le", True), ("a", "is", "a", True),
        ("a", "is not", "b", True),
        ("1", "is", 1, True), ("", "empty", None, True), ("x", "not empty", None, True),
        (True, "is", True, True), (True, "is", "true", True), (False, "is", "true", False), (True, "is", 1, False),
        (False, "empty", None, False), (0, "not empty", None, True),
        (3, "=", "3", True), (3, "≠", "4", True), (3, ">", "2", True), (3, "<", 2, False), (3, "≥", 3, True),
        (3, "≤", "x", False),
        (1, "contains", 1, True), ({}, "empty", None, True), ({"a": 1}, "not empty", None, True),
        ({"a": 1}, "contains", "a", True),
        ([1, "b"], "contains", "1", True), ([1], "not contains", 2, True), ([], "empty", None, True),
        ([1], "is", "[1]", True),
        ([1], "is not", [], True), ([1], "is", "[", False), (None, "empty", None, True),
        (None, "not empty", None, False),
        (None, "is", None, False), ("10", ">", "9", True), ("b", ">", "a", True), (True, ">", 0, False),
    ],
)  # fmt: skip
def test_every_operator_decides_by_type(left: Any, name: str, right: Any, expected: bool) -> None:
    assert holds(left, name, right) is expected
