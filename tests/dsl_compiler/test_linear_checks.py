"""A check of a canvas that is four times as large takes about four times as many calls."""

import sys

from benchmarks.checking import build
from ragflow_lg.dsl_compiler import check_canvas
from tests.fakes.canvas import CATALOG


def count_calls(groups: int) -> int:
    """Return the number of calls in a check; without them, nothing in Python takes long."""
    document, calls = build(10 * groups), 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    check_canvas(document, CATALOG)
    sys.setprofile(count)
    try:
        check_canvas(document, CATALOG)
    finally:
        sys.setprofile(None)
    return calls


def test_the_number_of_calls_is_linear() -> None:
    assert count_calls(160) < 4.1 * count_calls(40)
