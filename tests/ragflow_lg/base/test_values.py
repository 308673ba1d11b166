import datetime
import decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.values import (
    MAX_DEPTH,
    MAX_ITEMS,
    MAX_TEXT_CHARS,
    JsonValue,
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
        (2, 2),
        (1.5, 1.5),
        ("9007199254740993", 2**53 + 1),
        (" 1e3 ", 1000.0),
        ("x", None),
        ("", None),
        (True, None),
        ([1], None),
    ],
)
def test_a_number_is_read_from_a_text(value: Any, number: float | None) -> None:
    assert to_number(value) == number
    assert type(to_number(value)) is type(number)


@given(JSON)
def test_json_stays_unchanged(value: Any) -> None:
    assert to_json(value) == value


@each_row(
    ("value", "plain"),
    [
        ((1, 2), [1, 2]),
        ({1: {"a"}}, {"1": ["a"]}),
        (float("nan"), None),
        (float("inf"), None),
        (2**63, str(2**63)),
        ("\ud800x", "\ufffdx"),
        ("a\ude00\ud83d", "a\ufffd\ufffd"),
        ("\ufeffa\ud83d\ude00b", "\ufeffa\N{GRINNING FACE}b"),
        (b"a\xff", "a\ufffd"),
        (decimal.Decimal("1.5"), "1.5"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (True, True),
    ],
)
def test_everything_else_becomes_json(value: Any, plain: Any) -> None:
    assert to_json(value) == plain
    assert to_json({"in": [value]}) == {"in": [plain]}


def test_a_number_with_many_digits_becomes_hexadecimal_text() -> None:
    assert str(to_json(10**5000)).startswith("0x")


def test_values_beyond_a_limit_are_rejected() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH + 3):
        deep = [deep]
    for value in (deep, "x" * (MAX_TEXT_CHARS + 1), [0] * (MAX_ITEMS + 1)):
        with pytest.raises(ComponentError):
            to_json(value)
    with pytest.raises(ComponentError):
        join_texts("x" * 1_000_000 for _ in range(MAX_TEXT_CHARS // 1_000_000 + 1))


@each_row(
    ("path", "value"),
    [
        (["a", "1"], 3),
        (["a", "-1"], 3),
        (["a", "9"], None),
        (["a", "x"], None),
        (["t", "k"], "v"),
        (["n", "k"], None),
        ([], ...),
    ],
)
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
