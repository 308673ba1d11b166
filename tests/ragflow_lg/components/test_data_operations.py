from typing import Any

import pytest
from pydantic import ValidationError

from ragflow_lg.components.data_operations import data_operations, parse_literals
from tests.fakes.run import bind, run_component
from tests.harness.rows import each_row, read_rows


async def operate(operation: str, *values: Any, **params: Any) -> Any:
    """Run on the given values, each the value of a variable."""
    globals_ = {f"env.v{i}": value for i, value in enumerate(values)}
    result = await run_component(
        data_operations,
        {"query": list(globals_), "operations": operation, **params},
        globals={**globals_, "env.text": "T", "env.list": [1], "env.empty": ""},
    )
    return result.error or result.outputs["result"]


async def test_values_that_are_not_maps_are_ignored() -> None:
    assert await operate("select_keys", {"a": 1}, '{"a": 2}', [{"a": 3}, "x", [{"a": 4}]], None, select_keys="a") == [
        {"a": 1},
        {"a": 3},
    ]


@each_row("keys", [["a", "c", "z"], "a, c", [{"name": "a"}, "c"]])
async def test_select_and_remove_keys(keys: Any) -> None:
    entry = {"a": 1, "b": 2, "c": 3}
    assert await operate("select_keys", entry, select_keys=keys) == [{"a": 1, "c": 3}]
    assert await operate("remove_keys", entry, remove_keys=keys) == [{"b": 2}]


async def test_rename_keys_moves_them_to_the_end() -> None:
    pairs = ((" a ", "x"), ("b", "b"), ("", "y"), ("b", ""), ("none", "y"), ("x", "z"))
    names = [{"old_key": old, "new_key": new} for old, new in pairs]
    (renamed,) = await operate("rename_keys", {"a": 1, "b": 2}, rename_keys=names)
    assert list(renamed.items()) == [("b", 2), ("z", 1)]


@each_row(
    ("pairs", "expected"),
    [
        ("ab ba", {"b": 1, "a": 2, "c": 3}),
        ("ab bc ca", {"b": 1, "c": 2, "a": 3}),
        ("ab bc", {"b": 1, "c": 2}),
        ("ax xb", {"b": 1, "c": 3}),
        ("ab", {"b": 1, "c": 3}),
    ],
)
async def test_renamed_keys_do_not_overwrite_each_other(pairs: str, expected: dict[str, int]) -> None:
    names = [{"old_key": old, "new_key": new} for old, new in pairs.split()]
    assert await operate("rename_keys", {"a": 1, "b": 2, "c": 3}, rename_keys=names) == [expected]


async def test_combine_joins_several_values_into_a_list() -> None:
    values = [1]
    maps = [{"a": 1, "b": values, "c": "x", "d": [0]}, {"a": 2, "b": 2, "c": ["y"]}, {"a": 3}]
    assert await operate("combine", *maps) == {"a": [1, 2, 3], "b": [1, 2], "c": ["x", "y"], "d": [0]}
    assert values == [1]


@each_row(("rules", "expected"), read_rows("filter_rules"))
async def test_filter_values_tests_every_map(rules: list[dict[str, Any]], expected: list[int]) -> None:
    maps = [{"i": 0, "t": "ab", "b": True, "n": 1}, {"i": 1, "t": "ac", "n": None}, {"i": 2, "u": "T"}]
    assert [entry["i"] for entry in await operate("filter_values", maps, filter_values=rules)] == expected


async def test_append_or_update_sets_keys() -> None:
    updates = [
        {"key": " new ", "value": "<{env.text}>"},
        {"key": "a", "value": "{env.list}"},
        {"key": "e", "value": "{env.empty}"},
        {"key": "n", "value": {"raw": 1}},
        {"key": " ", "value": "x"},
    ]
    assert await operate("append_or_update", [{"a": 1, "b": 2}], updates=updates) == [
        {"a": [1], "b": 2, "new": "<T>", "e": "", "n": {"raw": 1}}
    ]


@each_row(
    ("text", "expected"),
    [
        *read_rows("literals"),
        ("9" * 5000, "9" * 5000),
        ("[" * 500 + "]" * 500, "[" * 500 + "]" * 500),
        ("[" + "-" * 90_000 + "1]", "[" + "-" * 90_000 + "1]"),
        ("(" + "1+" * 40_000 + "1)", "(" + "1+" * 40_000 + "1)"),
        ("('" + "x" * 100_000 + "')", "('" + "x" * 100_000 + "')"),
    ],
)
async def test_literal_eval_parses_json_and_python_literals(text: Any, expected: Any) -> None:
    assert await operate("literal_eval", {"v": [text]}) == [{"v": [expected]}]


@each_row(
    ("text", "expected"),
    [
        *[("12", 12), ("-3", "-3"), ("true", "true"), (" {'d': 1}", {"d": 1}), ("²", "²")],
        *[("[" * 70 + "]" * 70, "[" * 70 + "]" * 70), ("'" + "x" * 100_000 + "'", "'" + "x" * 100_000 + "'")],
    ],
)
def test_with_old_values_only_python_literals_are_parsed(text: str, expected: Any) -> None:
    assert parse_literals([{"v": [text]}], is_old=True) == [{"v": [expected]}]


async def test_literal_eval_limits_the_depth() -> None:
    value: Any = "1"
    for _ in range(80):
        value = [value]
    assert "nested deeper" in await operate("literal_eval", {"v": value})


@each_row("unread", [{"updates": "?"}, {"filter_values": [None]}, {"rename_keys": None}, {"select_keys": 7}])
async def test_only_what_the_operation_reads_has_to_be_valid(unread: dict[str, Any]) -> None:
    params = {"query": ["env.v"], "operations": "combine", **unread}
    result = await run_component(data_operations, params, globals={"env.v": [{"a": 1}]})
    assert result.outputs == {"result": {"a": 1}}
    reader = "append_or_update" if "updates" in unread else next(iter(unread))
    with pytest.raises(ValidationError):
        bind(data_operations, {**params, "operations": reader})
