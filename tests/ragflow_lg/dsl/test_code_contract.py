"""The outputs of CodeExec, given a value and the declared outputs."""

from typing import Any

import pytest

from ragflow_lg.dsl.code_contract import apply_contract, read_printed, text_of, type_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", ""),
        ("  \n", ""),
        (' {"a": 1}\n', {"a": 1}),
        ("{'t': (1, None)}", {"t": [1, None]}),
        ("True", True),
        ("two words ", "two words"),
        ("[" * 5_000, "[" * 5_000),
        ("{1: 2}", {"1": 2}),
    ],
)
def test_printed_text(text: str, value: Any) -> None:
    assert read_printed(text) == value


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "Null"),
        (True, "Boolean"),
        (1, "Number"),
        (1.5, "Number"),
        ("", "String"),
        ({}, "Object"),
        ([], "Array<Any>"),
        ([1, 2.5], "Array<Number>"),
        ([1, True], "Array<Any>"),
        ([[1], [2]], "Array<Array<Number>>"),
    ],
)
def test_types(value: Any, kind: str) -> None:
    assert type_of(value) == kind


@pytest.mark.parametrize(
    ("kind", "value", "error"),
    [
        ("", object, ""),
        ("any", None, ""),
        (" string ", "x", ""),
        ("Number", True, "at value: expected type Number, got Boolean"),
        ("Boolean", True, ""),
        ("null", None, ""),
        ("Object", [], "at value: expected type Object, got Array<Any>"),
        ("array<number>", [1, 2], ""),
        ("Array<Number>", [1, "a"], "at [1]: expected type Number, got String"),
        ("Array<Array<String>>", [["a"], ["b", 1]], "at [1][1]: expected type String, got Number"),
        ("Array<Any>", "x", "at value: expected type Array<Any>, got String"),
        ("Array<>", [], "Unsupported expected type: Array<>"),
        ("Array<String", ["x"], "Unsupported expected type: Array<String"),
        ("Text", "x", "Unsupported expected type: Text"),
    ],
)
def test_declared_types(kind: str, value: Any, error: str) -> None:
    value = 1 if value is object else value
    results = apply_contract(value, {"out": {"type": kind}})
    assert str(results["_ERROR"]).removeprefix("CodeExec contract mismatch ") == error
    assert results["out"] == (None if error else value)
    assert results["raw_result"] == value


@pytest.mark.parametrize(
    ("outputs", "error"),
    [
        ({}, "CodeExec contract must contain exactly one business output, got 0"),
        ({"a": {}, "b": {}}, "CodeExec contract must contain exactly one business output, got 2"),
        ({"content": {}}, "CodeExec reserved output name is not allowed: content"),
        ({"a.b": {}}, "CodeExec business output name must not contain '.': a.b"),
        ({" ": {}}, "CodeExec business output name must not be empty"),
        ({"a": None, "content": {}, "raw_result": {}}, ""),
    ],
)
def test_business_outputs(outputs: dict[str, Any], error: str) -> None:
    assert apply_contract("x", outputs)["_ERROR"] == error


def test_texts() -> None:
    assert [text_of(value) for value in (None, "ä", 1.0, False)] == ["", "ä", "1.0", "False"]
    assert text_of({"b": "ä", "a": [1]}) == '{\n  "a": [\n    1\n  ],\n  "b": "ä"\n}'
