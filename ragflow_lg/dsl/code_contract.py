"""The outputs of CodeExec, given what a program returned or printed.

Source: RAGFlow's ``agent/tools/code_exec.py``. The value of a program that has returned none is what it printed: JSON,
or Python's notation of a value, or text. The declared output receives the value; several receive the entries of a map,
by name, or of a list, by position, as until RAGFlow 0.24. A value is converted to the declared type if it is a text of
that type, or a number or boolean for a text.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, cast

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.values import JsonValue, to_json, write_path
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
"""The outputs that every CodeExec has; the others are the canvas's own."""

_SIMPLE_TYPES = {name.lower(): name for name in ("String", "Number", "Boolean", "Object", "Null", "Any")}
_TYPES = "String, Number, Boolean, Object, Null, Any or Array<…>"
_MAX_NESTED_TYPES = 64
_MAX_NAMED_KEYS = 8
_NUMBER = re.compile(r"[+-]?([0-9]{1,300}(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_WORDS: Mapping[str, bool] = {"true": True, "false": False}


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
def apply_contract(value: JsonValue, outputs: Mapping[str, Any], *, has_printed: bool = False) -> dict[str, JsonValue]:
    """Return the outputs for a value, given the declared ones. ``_ERROR`` says why the value does not fit, if so.

    ``has_printed`` says whether the program has also printed something, perhaps in place of returning it.
    """
    results: dict[str, JsonValue] = {"_ERROR": "", "raw_result": value, "actual_type": type_of(value)}
    try:
        results |= _with_roots(_fill(value, _declared_types(outputs), has_printed=has_printed))
    except _ContractError as error:
        results |= {name: None for name in outputs if name not in SYSTEM_OUTPUTS}
        results["_ERROR"] = str(error)
    results["content"] = text_of(value)
    return results


def find_contract_fault(outputs: Mapping[str, Any]) -> str:
    """Return why no value fits the declared outputs; ``""`` if one may.

    >>> find_contract_fault({"a": {"type": "Number"}}), find_contract_fault({"a": {"type": "Array<Text>"}})[:31]
    ('', "The output 'a' is declared as A")
    """
    try:
        _declared_types(outputs)
    except _ContractError as error:
        return str(error)
    return ""


def roots_of(outputs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the first parts of dotted names, by which references find them: ``user`` for ``user.name``."""
    return tuple({name.partition(".")[0]: None for name in outputs if "." in name})


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


def _declared_types(outputs: Mapping[str, Any]) -> dict[str, str]:
    """Return the declared types of the canvas's own outputs."""
    names = [name for name in outputs if name not in SYSTEM_OUTPUTS]
    if not names:
        taken = f"; {next(iter(outputs))!r} is one that every CodeExec has" if outputs else ""
        raise _ContractError(f"No output is declared for what main returns{taken}. Add one, of type {_TYPES}.")
    if any(not name.strip() for name in names):
        raise _ContractError("A declared output has no name. Give it one, or remove it.")
    types: dict[str, str] = {}
    for name in names:
        declared: Any = outputs[name]
        kind: Any = cast("Mapping[str, Any]", declared).get("type") if isinstance(declared, Mapping) else ""
        types[name] = expected = type_name(str(kind or ""))
        while expected.startswith("Array<") and expected.endswith(">"):
            expected = expected[6:-1].strip() or expected[6:]
        if expected not in ("", *_SIMPLE_TYPES.values()):
            raise _ContractError(f"The output {name!r} is declared as {kind}, which is no type. Use {_TYPES}.")
    return types


def _fill(value: JsonValue, types: Mapping[str, str], *, has_printed: bool) -> dict[str, JsonValue]:
    """Return the value of each declared output."""
    if value is None and has_printed and any(kind not in ("", "Any", "Null") for kind in types.values()):
        raise _ContractError(f"main returned nothing, but it printed something. Use return for {_listed(types)}.")
    if len(types) > 1:
        return _fill_several(_parsed(value), types)
    ((name, kind),) = types.items()
    found, entry = _entry(value, name)
    if found and "." in name:
        return {name: _converted(kind, entry, _Place(name))}
    try:
        return {name: _converted(kind, value, _Place(name, is_all=True))}
    except _ContractError:
        if not found:
            raise
        return {name: _converted(kind, entry, _Place(name))}


def _fill_several(value: JsonValue, types: Mapping[str, str]) -> dict[str, JsonValue]:
    expected = f"but {len(types)} outputs are declared: {_listed(types)}"
    if isinstance(value, Mapping):
        entries = {name: _entry(value, name) for name in types}
        if missing := [name for name, (found, _) in entries.items() if not found]:
            raise _ContractError(f"main returned {_describe(value)}, {expected}. Add {_listed(missing)} to the map.")
        values = [entry for _, entry in entries.values()]
    elif isinstance(value, list):
        values = cast("list[JsonValue]", value)
        if len(values) != len(types):
            raise _ContractError(f"main returned a list with {len(values)} entries, {expected}. Return one for each.")
    else:
        raise _ContractError(f"main returned {_describe(value)}, {expected}. Return a map with these keys.")
    pairs = zip(types.items(), values, strict=True)
    return {n: None if entry is None else _converted(kind, entry, _Place(n)) for (n, kind), entry in pairs}


def _entry(value: JsonValue, name: str) -> tuple[bool, JsonValue]:
    """Return whether a map has an entry for an output, and the entry: by its name, or by the parts of a dotted one."""
    if isinstance(value, Mapping) and name in value:
        return True, value[name]
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return False, None
        value = value[part]
    return True, value


def _with_roots(values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Add maps for dotted names, since a reference to ``user.name`` reads ``name`` in the output ``user``."""
    results = dict(values)
    for name, value in values.items():
        root, _, rest = name.partition(".")
        if rest and root not in values:
            results[root] = write_path(results.get(root), rest.split("."), value)
    return results


def type_name(declared: str) -> str:
    """Return a declared type in RAGFlow's spelling; one that does not exist is returned unchanged."""
    name = declared.strip()
    depth = 0
    while name.lower().startswith("array<") and name.endswith(">") and depth < _MAX_NESTED_TYPES:
        name, depth = name[6:-1].strip(), depth + 1
        if not name:
            return declared
    return "Array<" * depth + _SIMPLE_TYPES.get(name.lower(), name) + ">" * depth


class _Place(NamedTuple):
    """Where in the value of ``main`` something stands, for messages."""

    output: str
    path: str = ""
    is_all: bool = False
    """Whether the output gets the whole value."""


def _converted(expected: str, value: JsonValue, place: _Place) -> JsonValue:
    """Return a value as the declared type."""
    if expected in ("", "Any"):
        return value
    if expected.startswith("Array<"):
        entries = _parsed(value)
        if not isinstance(entries, list):
            raise _mismatch(expected, value, place)
        inner = expected[6:-1].strip()
        return [
            _converted(inner, entry, place._replace(path=f"{place.path}[{index}]"))
            for index, entry in enumerate(cast("list[JsonValue]", entries))
        ]
    if type_of(value) == expected:
        return value
    match expected, value:
        case "String", bool() | int() | float():
            return text_of(value)
        case "Number", str() if _NUMBER.fullmatch(text := value.strip()):
            number = int(text) if text.lstrip("+-").isdigit() else float(text)
            if math.isfinite(number):
                return number
        case "Boolean", str() if value.strip().lower() in _WORDS:
            return _WORDS[value.strip().lower()]
        case "Object", str() if isinstance(parsed := _parsed(value), Mapping):
            return parsed
        case _:
            pass
    raise _mismatch(expected, value, place)


def _parsed(value: JsonValue) -> JsonValue:
    """Return the map or list of a text in JSON; other values as they are."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        with suppress(ValueError, RecursionError, ComponentError):
            return to_json(json.loads(value))
    return value


def _mismatch(expected: str, value: JsonValue, place: _Place) -> _ContractError:
    returned = f"main returned {_describe(value)}"
    if place.path:
        where, what = f" in {place.path}", f"{expected} is declared for the entries of {place.output!r}"
    else:
        where, what = "", f"the output {place.output!r} is declared as {expected}"
    if not place.is_all:
        where += f" for {place.output!r}"
    return _ContractError(f"{returned}{where}, but {what}. Return such a value, or declare another type.")


def _describe(value: JsonValue) -> str:
    if value is None:
        return "nothing (null)"
    if isinstance(value, Mapping):
        return f"an Object with the keys {_listed(list(value))}" if value else "an empty Object"
    kind = type_of(value)
    return f"an {kind}" if kind.startswith("Array") else f"a {kind}"


def _listed(names: Iterable[str]) -> str:
    """Return names for a message.

    >>> _listed(["a", "b"])
    "'a', 'b'"
    """
    shown = [f"{name[:40]!r}" for name in names]
    return ", ".join(shown[:_MAX_NAMED_KEYS]) + (" …" if len(shown) > _MAX_NAMED_KEYS else "")
