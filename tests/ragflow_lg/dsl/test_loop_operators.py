from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.dsl.loop_operators import OPERATORS, holds
from tests.harness.rows import each_row, read_rows

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(JSON, st.sampled_from(sorted(OPERATORS)), JSON)
def test_no_operator_raises(left: Any, name: str, right: Any) -> None:
    assert holds(left, name, right) in (True, False)


@each_row(("left", "name", "right", "expected"), read_rows("loop_operators"))
def test_every_operator_decides_by_type(left: Any, name: str, right: Any, expected: bool) -> None:
    assert holds(left, name, right) is expected
