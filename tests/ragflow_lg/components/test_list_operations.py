import asyncio
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.components.list_operations import list_operations
from tests.fakes.run import run_component
from tests.harness.rows import each_row


async def operate(values: Any, operation: str, **params: Any) -> Any:
    result = await run_component(
        list_operations,
        {"query": "env.v", "operations": operation, **params},
        globals={"env.v": values, "env.wanted": "b"},
    )
    return result.error or result.outputs["result"]


@each_row(
    ("operation", "n", "expected"),
    [
        ("nth", 1, [1]), ("nth", "3", [3]), ("nth", -1, [3]), ("nth", -3, [1]), ("nth", 0, []), ("nth", 4, []),
        ("nth", -4, []), ("", 2, [2]), ("head", 2, [1, 2]), ("topN", 2, [1, 2]), ("TOPN", 9, [1, 2, 3]),
        ("head", 0, []), ("head", -1, []), ("tail", 2, [2, 3]), ("tail", 9, [1, 2, 3]), ("tail", "junk", []),
        ("tail", "inf", []),
    ],
)  # fmt: skip
async def test_nth_head_and_tail_pick_items(operation: str, n: Any, expected: list[int]) -> None:
    assert await operate([1, 2, 3], operation, n=n) == expected


@each_row("n", ["{env.n}", "env.n"])
@each_row("value", [2, "2", 2.0])
async def test_n_may_be_a_reference(n: str, value: Any) -> None:
    for operation, expected in (("nth", [2]), ("head", [1, 2]), ("tail", [2, 3])):
        params = {"query": "env.v", "operations": operation, "n": n}
        result = await run_component(list_operations, params, globals={"env.v": [1, 2, 3], "env.n": value})
        assert result.outputs["result"] == expected


async def test_a_reference_for_n_that_is_no_number_is_an_error() -> None:
    params = {"query": "env.v", "operations": "head", "n": "{env.n}"}
    result = await run_component(list_operations, params, globals={"env.v": [1, 2, 3], "env.n": "two"})
    assert result.error == "n should be a number, but env.n is 'two'."


EQUAL = [{"a": 1, "i": 0}, {"a": 1, "i": 1}]


@each_row("value", ["text", {"a": 1}, None, 5])
async def test_anything_but_a_list_is_an_error(value: Any) -> None:
    assert await operate(value, "head") == "The input of List Operations should be an array."


@each_row(
    ("operator", "value", "expected"),
    [
        ("=", "b", ["b"]), ("==", "{env.wanted}", ["b"]), (None, "b", ["b"]),
        ("≠", "b", ["ab", None, 1, True, ["b"]]), ("contains", "b", ["ab", "b", ["b"]]),
        ("not contains", "b", [None, 1, True]), ("start with", "a", ["ab"]), ("end with", "b", ["ab", "b"]),
        ("empty", "", [None]), ("not empty", "", ["ab", "b", 1, True, ["b"]]), ("=", 1, [1]), ("=", True, [True]),
        ("=", "true", [True]), ("=", "True", [True]), ("=", "false", []), ("≠", "true", ["ab", "b", None, 1, ["b"]]),
    ],
)  # fmt: skip
async def test_filter_selects_items(operator: Any, value: Any, expected: list[Any]) -> None:
    values = ["ab", "b", None, 1, True, ["b"]]
    assert await operate(values, "filter", filter={"operator": operator, "value": value}) == expected


@each_row(
    ("values", "params", "expected"),
    [
        ([3, 1.5, 2], {}, [1.5, 2, 3]),
        ([3, 1, 2], {"sort_method": "desc"}, [3, 2, 1]),
        (["b", 2, None, [1], {"a": 1}, "a"], {}, [None, 2, "a", "b", [1], {"a": 1}]),
        ([{"n": 10}, {"n": 9}], {}, [{"n": 9}, {"n": 10}]),
        ([{"b": 1, "a": 2}, {"a": 1, "b": 9}], {}, [{"a": 1, "b": 9}, {"b": 1, "a": 2}]),
        (
            [{"a": 1, "b": 2}, {"a": 1, "b": 1}, {"b": 0}],
            {"sort_by": "a, b"},
            [{"b": 0}, {"a": 1, "b": 1}, {"a": 1, "b": 2}],
        ),
        (EQUAL, {"sort_by": ["a"], "sort_method": "desc"}, EQUAL),
        *(([2, 1], {"sort_method": method, "sort_by": None}, [1, 2]) for method in ("", None, "asc")),
    ],
)
async def test_sort_orders_items(values: list[Any], params: dict[str, Any], expected: list[Any]) -> None:
    before = [*values]
    assert await operate(values, "sort", **params) == expected
    assert values == before


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)


@given(st.lists(json_values, max_size=6), st.randoms(use_true_random=False), st.sampled_from(["", "a", "b,a"]))
def test_sort_is_a_total_order(values: list[Any], random: Any, sort_by: str) -> None:
    shuffled = random.sample(values, len(values))

    def ordered(items: list[Any]) -> list[Any]:
        return asyncio.run(operate(items, "sort", sort_by=sort_by))

    result = ordered(values)
    assert ordered(result) == result
    if not sort_by:
        assert ordered(shuffled) == result
    for left, right in pairwise(result):
        assert ordered([left, right]) == [left, right]


async def test_drop_duplicates_distinguishes_booleans_from_numbers() -> None:
    values = [1, 1.0, True, "1", {"a": 1, "b": [2]}, {"b": [2.0], "a": 1}, None, None, True]
    assert await operate(values, "drop_duplicates") == [1, True, "1", {"a": 1, "b": [2]}, None]
