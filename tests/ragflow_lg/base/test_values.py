import datetime
import decimal
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.base import lenient_values
from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.values import (
    MAX_DEPTH,
    MAX_ITEMS,
    MAX_TEXT_CHARS,
    JsonValue,
    PlainLimits,
    copy_if_plain,
    empty_like,
    empty_of_type,
    join_texts,
    read_path,
    to_json,
    to_number,
    to_text,
    write_path,
)
from tests.harness.rows import each_row

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@each_row(
    ("value", "number"),
    [
        (2, 2), (1.5, 1.5), ("9007199254740993", 2**53 + 1), (" 1e3 ", 1000.0), ("x", None), ("", None), (True, None),
        ([1], None),
    ],
)  # fmt: skip
def test_a_number_is_read_from_a_text(value: Any, number: float | None) -> None:
    assert to_number(value) == number
    assert type(to_number(value)) is type(number)


@given(JSON)
def test_json_stays_unchanged(value: Any) -> None:
    assert repr(to_json(value)) == repr(value)  # also distinguishes 1, 1.0 and True


PLAIN_LIMITS = PlainLimits(depth=4, items=20, chars=100, text_chars=50)


@each_row(
    "value",
    [
        [2**63], [-(2**63) - 1], [math.nan], [math.inf], ["\ud800"], {"\udfff": 1}, {1: 2}, [(1,)], [b"x"], [{1}],
        ["x" * 51], ["x" * 50] * 3, [0] * 21, [[0] * 11, [0] * 11], [[[[[1]]]]],
    ],
)  # fmt: skip
def test_only_plain_values_within_the_limits_are_copied(value: Any) -> None:
    assert copy_if_plain(value, PLAIN_LIMITS) is None
    assert copy_if_plain({"a": ["bc", 1], "d": {}}, PLAIN_LIMITS) == ({"a": ["bc", 1], "d": {}}, 4, 4)


@each_row("odd", [math.nan, 2**64, "\ud800", (1,), {3: 4}])
def test_a_large_value_with_one_odd_entry_is_converted(odd: Any) -> None:
    assert to_json([*range(1_000), odd]) == [*range(1_000), to_json(odd)]


@each_row(
    ("value", "plain"),
    [
        ((1, 2), [1, 2]), ({1: {"a"}}, {"1": ["a"]}), (float("nan"), None), (float("inf"), None), (2**63, str(2**63)),
        ("\ud800x", "\ufffdx"), ("a\ude00\ud83d", "a\ufffd\ufffd"),
        ("\ufeffa\ud83d\ude00b", "\ufeffa\N{GRINNING FACE}b"), (b"a\xff", "a\ufffd"), (decimal.Decimal("1.5"), "1.5"),
        (datetime.date(2026, 1, 2), "2026-01-02"), (True, True), (16**5000, "0x1" + "0" * 5000),
    ],
)  # fmt: skip
def test_everything_else_becomes_json(value: Any, plain: Any) -> None:
    assert to_json(value) == plain
    assert to_json({"in": [value]}) == {"in": [plain]}


def test_values_beyond_a_limit_are_rejected() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH + 3):
        deep = [deep]
    endless: list[Any] = list(range(100))
    endless.append(endless)
    for value in (deep, endless, "x" * (MAX_TEXT_CHARS + 1), [0] * (MAX_ITEMS + 1)):
        with pytest.raises(ComponentError):
            to_json(value)
    with pytest.raises(ComponentError):
        join_texts("x" * 1_000_000 for _ in range(MAX_TEXT_CHARS // 1_000_000 + 1))


@each_row(
    ("path", "value"),
    [
        (["a", "1"], 3), (["a", "-1"], 3), (["a", "9"], None), (["a", "x"], None), (["t", "k"], "v"),
        (["n", "k"], None), ([], ...),
    ],
)  # fmt: skip
def test_reading_by_path(path: list[str], value: Any) -> None:
    root = {"a": [2, 3], "t": '{"k": "v"}', "n": None}
    assert read_path(root, path) == (root if value is ... else value)


def test_writing_by_path() -> None:
    root: JsonValue = {"a": {"b": 1}}
    assert write_path(root, ["a", "c", "d"], 2) == {"a": {"b": 1, "c": {"d": 2}}}
    assert root == {"a": {"b": 1}}
    assert write_path(None, ["x"], 1) == {"x": 1}
    with pytest.raises(ComponentError):
        write_path({"a": [1]}, ["a", "b"], 1)


def test_texts_and_empty_values() -> None:
    assert [to_text(v) for v in (None, "a", 1.0, {"ü": None})] == ["", "a", "1.0", '{"ü": null}']
    assert [empty_like(v) for v in ("a", 3, 1.5, True, [1], {"a": 1}, None)] == ["", 0, 0.0, False, [], {}, None]
    assert [empty_of_type(t) for t in ("number", "Boolean", "object", "array<x>", "?")] == [0, False, {}, [], ""]


def test_the_texts_of_a_value_are_limited_together() -> None:
    text = "x" * MAX_TEXT_CHARS
    assert to_json([text] * 4) == [text] * 4
    with pytest.raises(ComponentError, match="more than 33,554,432 characters"):
        to_json([text] * 4 + ["x"])
    with pytest.raises(ComponentError, match="characters"):
        to_json({text + str(number)[-1]: text[1:] for number in range(4)})


def test_the_entries_of_plain_values_need_no_slow_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(lenient_values, "Mapping")
    values: list[Any] = [None, True, 1, 1.5, "x", [], {}, [1, 2], {"a": 3}]
    assert [part for value in values for part in lenient_values.entries_of(value)] == [1, 2, 3]
