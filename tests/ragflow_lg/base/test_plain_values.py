import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.values import PlainLimits, copy_if_plain, to_json
from tests.harness.rows import each_row

LIMITS = PlainLimits(depth=4, items=20, chars=100, text_chars=50)
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
PLAIN = st.recursive(
    SCALARS | st.text(max_size=5), lambda values: st.lists(values) | st.dictionaries(st.text(max_size=5), values)
)


@given(st.lists(PLAIN) | st.dictionaries(st.text(max_size=5), PLAIN))
def test_a_plain_value_is_copied_exactly(value: Any) -> None:
    copy = copy_if_plain(value, PlainLimits(100, 100_000, 100_000, 1_000))
    assert copy is not None
    assert repr(copy.value) == repr(value)  # also distinguishes 1, 1.0 and True
    assert copy.value is not value


@each_row(
    "value",
    [
        [2**63], [-(2**63) - 1], [math.nan], [math.inf], ["\ud800"], {"\udfff": 1}, {1: 2}, [(1,)], [b"x"], [{1}],
        ["x" * 51], ["x" * 50] * 3, [0] * 21, [[0] * 11, [0] * 11], [[[[[1]]]]],
    ],
)  # fmt: skip
def test_other_values_and_values_beyond_a_limit_are_refused(value: Any) -> None:
    assert copy_if_plain(value, LIMITS) is None


def test_entries_and_characters_are_counted() -> None:
    assert copy_if_plain({"a": ["bc", 1], "d": {}}, LIMITS) == ({"a": ["bc", 1], "d": {}}, 4, 4)


@each_row("odd", [math.nan, 2**64, "\ud800", (1,), {3: 4}])
def test_a_large_value_with_one_odd_entry_is_converted(odd: Any) -> None:
    assert to_json([*range(1_000), odd]) == [*range(1_000), to_json(odd)]


def test_a_value_that_contains_itself_is_rejected() -> None:
    value: list[Any] = list(range(100))
    value.append(value)
    with pytest.raises(ComponentError, match="nested deeper"):
        to_json(value)


def test_the_copy_shares_nothing_with_the_value() -> None:
    row = {"a": [1]}
    value: Any = to_json([row] * 100)
    value[0]["a"].append(2)
    assert row == {"a": [1]}
    assert value[1] == {"a": [1]}
