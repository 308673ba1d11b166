"""The outputs of CodeExec, given what a program returned or printed.

Source: RAGFlow's ``agent/tools/code_exec.py``. The value of a program that has returned none is what it printed: JSON,
or Python's notation of a value, or text. One of the declared outputs, the *business output*, receives the value, which
must have its declared type.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.values import JsonValue, to_json
from ragflow_lg.base.worker_tasks import worker_task

SYSTEM_OUTPUTS = frozenset(
    {
        "content",
        "actual_type",
        "attachments",
        "_ERROR",
        "_ARTIFACTS",
        "_ATTACHMENT_CONTENT",
        "raw_result",
        "_created_time",
        "_elapsed_time",
    }
)
"""The outputs that every CodeExec has; the others are business outputs."""

_SIMPLE_TYPES = {name.lower(): name for name in ("String", "Number", "Boolean", "Object", "Null", "Any")}
_MAX_NESTED_TYPES = 64


class _ContractError(Exception):
    """A value does not fit the declared output."""


@worker_task("Reading the result of the code", seconds=10)
def read_printed(text: str) -> JsonValue:
    """Return the value that a program has printed: JSON, Python's notation of a value, or the text itself."""
    text = text.strip()
    for load in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, TypeError, RecursionError, MemoryError, ComponentError):
            return to_json(load(text))
    return text


@worker_task("Reading the result of the code", seconds=10)
def apply_contract(value: JsonValue, outputs: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return the outputs for a value, given the declared ones. ``_ERROR`` says why the value does not fit, if so."""
    results: dict[str, JsonValue] = {"_ERROR": "", "raw_result": value, "actual_type": type_of(value)}
    try:
        name, declared = _business_output(outputs)
        _check(_type_name(declared), value, "")
        results[name] = value
    except _ContractError as error:
        results |= {name: None for name in outputs if name not in SYSTEM_OUTPUTS}
        results["_ERROR"] = str(error)
    results["content"] = text_of(value)
    return results


def find_contract_fault(outputs: Mapping[str, Any]) -> str:
    """Return why no value fits the declared outputs; ``""`` if one may.

    >>> find_contract_fault({"a": {"type": "Number"}}), find_contract_fault({"a": {"type": "Array<Text>"}})
    ('', 'Unsupported expected type: Text')
    """
    try:
        _, declared = _business_output(outputs)
        expected = _type_name(declared)
    except _ContractError as error:
        return str(error)
    while expected.startswith("Array<") and expected.endswith(">"):
        expected = expected[6:-1].strip()
    return "" if expected in ("", *_SIMPLE_TYPES.values()) else f"Unsupported expected type: {expected}"


def type_of(value: JsonValue) -> str:
    """Return the type of a value in RAGFlow's notation.

    >>> type_of([1, 2.5]), type_of([1, "a"]), type_of(True)
    ('Array<Number>', 'Array<Any>', 'Boolean')
    """
    if value is None:
        return "Null"
    if isinstance(value, bool):
        return "Boolean"
    if isinstance(value, int | float):
        return "Number"
    if isinstance(value, str):
        return "String"
    if isinstance(value, Mapping):
        return "Object"
    types = {type_of(item) for item in cast("list[JsonValue]", value)}
    return f"Array<{types.pop()}>" if len(types) == 1 else "Array<Any>"


def text_of(value: JsonValue) -> str:
    r"""Return a value as the text of the output ``content``.

    >>> text_of(True), text_of({"b": 1, "a": []})
    ('True', '{\n  "a": [],\n  "b": 1\n}')
    """
    if value is None:
        return ""
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)
    return str(value)


def _business_output(outputs: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name and the declared type of the only business output."""
    names = list(outputs) if len(outputs) == 1 else [name for name in outputs if name not in SYSTEM_OUTPUTS]
    if len(names) != 1:
        raise _ContractError(f"CodeExec contract must contain exactly one business output, got {len(names)}")
    name = names[0]
    if not name.strip():
        raise _ContractError("CodeExec business output name must not be empty")
    if name in SYSTEM_OUTPUTS:
        raise _ContractError(f"CodeExec reserved output name is not allowed: {name}")
    if "." in name:
        raise _ContractError(f"CodeExec business output name must not contain '.': {name}")
    declared: Any = outputs[name]
    kind: Any = cast("Mapping[str, Any]", declared).get("type") if isinstance(declared, Mapping) else ""
    return name, str(kind or "")


def _type_name(declared: str) -> str:
    """Return a declared type in RAGFlow's spelling; one that does not exist is returned unchanged."""
    name = declared.strip()
    depth = 0
    while name.lower().startswith("array<") and name.endswith(">") and depth < _MAX_NESTED_TYPES:
        name, depth = name[6:-1].strip(), depth + 1
        if not name:
            raise _ContractError(f"Unsupported expected type: {declared}")
    return "Array<" * depth + _SIMPLE_TYPES.get(name.lower(), name) + ">" * depth


def _check(expected: str, value: JsonValue, path: str) -> None:
    if expected in ("", "Any"):
        return
    actual = type_of(value)
    mismatch = f"CodeExec contract mismatch at {path or 'value'}: expected type {expected}, got {actual}"
    if expected.startswith("Array<") and expected.endswith(">"):
        if not isinstance(value, list):
            raise _ContractError(mismatch)
        for index, item in enumerate(value):
            _check(expected[6:-1].strip(), item, f"{path}[{index}]")
    elif expected not in _SIMPLE_TYPES.values():
        raise _ContractError(f"Unsupported expected type: {expected}")
    elif expected != actual:
        raise _ContractError(mismatch)
