import time
from collections.abc import Callable
from typing import Any

import pytest

from ragflow_lg.base.values import JsonValue
from ragflow_lg.dsl import old_values
from ragflow_lg.dsl.variable_references import Reference, ReferenceScope, Template, parse_template
from tests.harness.rows import each_row

SWITCH: list[tuple[Any, str, Any, bool]] = [
    (5, "=", "5", True),
    (5, "contains", "5", False),
    (True, "=", "1", True),
    ("x", "=", "X", False),
    ("aXb", "contains", "xB", True),
    (["a"], "contains", "['A']", True),
    (None, "contains", "", True),
    (0, "empty", "0", True),
    ("10", ">", "9", True),
    ("b", ">", "a", True),
]
LOOP: list[tuple[Any, str, Any, bool]] = [
    ("aB", "contains", "b", False),
    ("ab", "end with", "b", True),
    (True, "is", "true", False),
    (3, "≥", 3, True),
    (0, "empty", None, False),
    ({}, "empty", None, True),
    ([1], "contains", 1, True),
    (None, "=", None, False),
]
FAILING = [
    lambda: old_values.switch_holds(3, "empty", ""),
    lambda: old_values.switch_holds(True, "=", "true"),
    lambda: old_values.switch_holds(["a"], ">", "b"),
    lambda: old_values.switch_holds("a", "matches", "a"),
    lambda: old_values.loop_condition_holds(3, ">", "2"),
    lambda: old_values.loop_condition_holds("a", "contains", 1),
    lambda: old_values.loop_condition_holds(1, "is", 1),
    lambda: old_values.sort_items([1, "a"], [], False),
    lambda: old_values.sort_items([{"k": 1}, {}], ["k"], False),
]
CHANGES: list[tuple[Any, str, Any, Any]] = [
    (None, "append", 1, [1]),
    (1, "append", 1, "ERROR:VARIABLE_NOT_LIST"),
    ([1], "extend", 1, "ERROR:PARAMETER_NOT_LIST"),
    ([1], "extend", [], [1]),
    ([1, 2], "remove_last", None, [1]),
    (None, "remove_first", None, "ERROR:VARIABLE_NOT_LIST"),
    (1, "/=", 0, "ERROR:DIVIDE_BY_ZERO"),
    (1, "+=", True, "ERROR:VARIABLE_NOT_NUMBER or PARAMETER_NOT_NUMBER"),
    (2**62, "*=", 4, float(2**64)),
    ("a", "**=", "b", None),
]
GAPS = [
    ("a {sys.query} b", "asys.queryb"),
    ("{ {sys.query} }.", "sys.query."),
    ("{a@x} {item} {b@y}", "a@x{item}b@y"),
    (" {x} ", " {x} "),
]


@each_row(("left", "name", "right", "expected"), SWITCH)
def test_a_condition_of_a_switch(left: Any, name: str, right: Any, expected: bool) -> None:
    assert old_values.switch_holds(left, name, right) is expected


@each_row(("left", "name", "right", "expected"), LOOP)
def test_a_condition_of_a_loop(left: Any, name: str, right: Any, expected: bool) -> None:
    assert old_values.loop_condition_holds(left, name, right) is expected


@each_row("call", FAILING)
def test_what_raises_in_ragflow_raises(call: Callable[[], object]) -> None:
    with pytest.raises((ValueError, TypeError)):
        call()


@each_row(("current", "name", "parameter", "expected"), CHANGES)
def test_a_change_of_a_variable(current: Any, name: str, parameter: Any, expected: Any) -> None:
    assert old_values.assign(current, name, parameter) == expected


@each_row(("text", "expected"), GAPS)
def test_the_gaps_next_to_references_close(text: str, expected: str) -> None:
    template = parse_template(text, ReferenceScope(frozenset("ab"), has_aliases=True, is_old=True))
    assert "".join(map(str, old_values.close_gaps(template).segments)) == expected


def test_braces_and_hyphens_of_references() -> None:
    scope = ReferenceScope(frozenset({"my-node", "n"}), is_old=True)
    parts = [str(part) for part in parse_template("{{n@x}} { n@x } {my-node@x}", scope).segments]
    assert parts == ["{", "n@x", "} { n@x } {my-node@x}"]


def test_values_that_a_list_operation_compares() -> None:
    maps = [{"a": [1]}, {"a": [True]}, {"b": 1}]
    assert old_values.drop_duplicates(maps) == [{"a": [1]}, {"b": 1}]
    assert old_values.drop_duplicates([1, True, 1.0, "1", {"a": 0}, [["a", -0.0]]]) == [1, "1", {"a": 0}]
    assert old_values.sort_items([{"k": 2}, {"k": 1}], ["k"], True) == [{"k": 2}, {"k": 1}]
    assert old_values.sort_items([[2], [1]], [], False) == [[1], [2]]
    assert old_values.TextRule("contains", "None").matches([None])
    assert not old_values.TextRule("not contains", "x").matches("a")


def test_the_texts_of_a_request() -> None:
    assert old_values.query_texts({"a": 1, "b": 2}) == ["a", "b"]
    assert old_values.query_texts([True, None, "x"]) == ["True", "x"]
    assert old_values.query_texts(None) == ""


@each_row(
    ("declared", "value", "error"),
    [
        ({"n": {"type": "array<Number>"}}, [1, "2"], "at [1]: expected type Number, got String"),
        ({"n": {"type": "Array<Number>"}}, 1, "at value: expected type Array<Number>, got Number"),
        ({"n": {}, "m": {}}, 1, "exactly one business output, got 2"),
        ({"n": {"type": "Any"}, "content": {}}, 1, ""),
    ],
)
def test_the_output_of_a_program(declared: Any, value: Any, error: str) -> None:
    outputs = old_values.code_outputs(value, declared)
    assert str(outputs["_ERROR"]).endswith(error)
    assert outputs["n"] == (None if error else value)


def test_a_piece_that_begins_with_the_text_so_far_is_the_whole_text() -> None:
    reader = old_values.PieceReader()
    assert [reader.read(piece) for piece in ("ha", "ha", "hah", "!")] == ["ha", "", "h", "!"]


def read_pieces() -> None:
    reader = old_values.PieceReader()
    for number in range(60_000):
        assert reader.read(f"{number}" * 20)


POWERS = [2.0 ** (61 * exponent) for exponent in range(-12, 12)]
"""Numbers whose hash is 1."""
LISTS: list[JsonValue] = [[] for _ in range(100_000)]
SPACES = Template("", (" " * 60_000 + "x", Reference("global", "sys.query", "sys.query")))


@each_row(
    "call",
    [
        read_pieces,
        lambda: old_values.drop_duplicates([[a, b, c] for a in POWERS for b in POWERS for c in POWERS]),
        lambda: old_values.close_gaps(SPACES),
        lambda: old_values.match_category("Ä" * 100_000, [str(number) for number in range(5_000)]),
        lambda: old_values.code_outputs(LISTS, {"n": {"type": "Array<" * 60 + "Any" + ">" * 60}}),
    ],
)
def test_hostile_values_take_no_time(call: Callable[[], object]) -> None:
    began = time.process_time()
    call()
    assert time.process_time() - began < 1
