"""RAGFlow's results, accidents included, where ours are others: the behaviour ``old_values``.

Components choose these functions where they compute, and nothing else depends on them. Where RAGFlow's operators raise
an exception, so do these; the node then fails. The rows of ``docs/fidelity.md`` that name the option explain them.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, cast

from ragflow_lg.base.lenient_values import as_map, as_text
from ragflow_lg.base.values import JsonValue
from ragflow_lg.base.worker_tasks import worker_task
from ragflow_lg.dsl.code_contract import SYSTEM_OUTPUTS, text_of, type_name, type_of
from ragflow_lg.dsl.conditions import FILTERS
from ragflow_lg.dsl.variable_references import Reference, Template

# Switch and Loop


def switch_holds(left: Any, name: str, right: Any) -> bool:
    """Return whether a condition of a Switch holds. Beside a number, or a boolean, the literal must be a number.

    >>> switch_holds(5, "contains", "5"), switch_holds(["a"], "contains", "['")
    (False, True)
    """
    if isinstance(left, int | float):
        right = float(right)
    if name in ("contains", "not contains", "start with", "end with"):
        text, part = ("" if value is None else str(value).lower() for value in (left, right))
        if name == "start with":
            return text.startswith(part)
        return text.endswith(part) if name == "end with" else (part in text) == (name == "contains")
    if name in ("empty", "not empty"):
        return (not left) == (name == "empty")
    if name in ("=", "≠"):
        return (left == right) == (name == "=")
    with suppress(TypeError, ValueError, OverflowError):
        left, right = float(left), float(right)
    return _compare(left, name, right)


_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    "≥": operator.ge,
    "≤": operator.le,
}


def _compare(left: Any, name: str, right: Any) -> bool:
    if name not in _ORDER:
        raise ValueError(f"Not supported operator: {name}")
    return _ORDER[name](left, right)


_LOOP_OPERATORS: Mapping[type, Sequence[str]] = {
    str: ("contains", "not contains", "start with", "end with", "is", "is not", "empty", "not empty"),
    bool: ("is", "is not", "empty", "not empty"),
    int: ("=", "≠", ">", "<", "≥", "≤", "empty", "not empty"),
    float: ("=", "≠", ">", "<", "≥", "≤", "empty", "not empty"),
    dict: ("empty", "not empty"),
    list: ("contains", "not contains", "is", "is not", "empty", "not empty"),
}


def loop_condition_holds(left: Any, name: str, right: Any) -> bool:
    """Return whether a condition of a Loop holds. Each type has its own operators, and nothing is converted.

    >>> loop_condition_holds("1", "is", 1), loop_condition_holds(0, "empty", "")
    (False, False)
    """
    if left is None:
        return name == "empty"
    if name not in _LOOP_OPERATORS[type(left)]:
        raise ValueError(f"Invalid operator: {name}")
    if name in ("empty", "not empty"):
        return (not isinstance(left, bool | int | float) and not left) == (name == "empty")
    if name in ("contains", "not contains"):
        return (right in left) == (name == "contains")
    if name in ("is", "is not", "=", "≠"):
        is_same = left is right if isinstance(left, bool) else left == right
        return is_same == (name in ("is", "="))
    if name in ("start with", "end with"):
        return left.startswith(right) if name == "start with" else left.endswith(right)
    return _compare(left, name, right)


# Turns

BEGIN = "begin"
"""The id of the only component that a turn can begin with."""


def is_form(node: str) -> bool:
    """Return whether an answer continues the turn that waits for a node, which only the node's id tells."""
    return "userfillup" in node.lower()


# Lists, maps and variables


def sort_items(values: list[Any], keys: Sequence[str], is_descending: bool) -> list[Any]:
    """Return the items in order. Items that cannot be compared raise TypeError."""
    if not values or not isinstance(values[0], dict):
        return sorted(values, reverse=is_descending)

    def order(item: Any) -> Any:
        return tuple(item.get(key) for key in keys) if keys else _comparable(item)

    return sorted(values, key=order, reverse=is_descending)


def drop_duplicates(values: list[Any]) -> list[Any]:
    """Return the first of each group of equal items.

    >>> drop_duplicates([1, True, 1.0, "1"])
    [1, '1']
    """
    unique: dict[str, Any] = {}
    for value in values:
        unique.setdefault(json.dumps(_comparable(value)), value)  # a text, because hashes of numbers can be chosen
    return list(unique.values())


def _comparable(value: Any) -> Any:
    """Return equal values in the same form; a map is a list of its entries."""
    if isinstance(value, dict):
        return tuple(sorted((key, _comparable(entry)) for key, entry in cast("dict[str, Any]", value).items()))
    if isinstance(value, list):
        return tuple(map(_comparable, cast("list[Any]", value)))
    return int(value) if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()) else value


class TextRule(NamedTuple):
    """A filter of a list or of maps, with the text that values are compared with; see `conditions.TextRule`."""

    operator: str
    expected: str

    def matches(self, value: JsonValue) -> bool:
        """Return whether the value matches in Python's notation. Some operators match nothing."""
        is_known = self.operator not in ("not contains", "empty", "not empty")
        return is_known and FILTERS[self.operator](python_text(value), self.expected)


def may_be_literal(text: str) -> bool:
    """Return whether a text is parsed as a Python literal.

    >>> may_be_literal("12"), may_be_literal("-3")
    (True, False)
    """
    is_word = text.lower() in ("true", "false", "none")
    return is_word or text.startswith(("{", "[", "(", "'", '"')) or text.replace(".", "").isdigit()


def assign(current: Any, name: str, parameter: Any) -> Any:
    """Return the new value of a variable, which is an error code if the change is impossible.

    ``parameter`` is the value of the reference for ``overwrite``, ``append`` and ``extend``, and the text for ``set``.

    >>> assign(3, "+=", "1"), assign(3, "/=", 2), assign([1], "append", 2.5)
    ('ERROR:VARIABLE_NOT_NUMBER or PARAMETER_NOT_NUMBER', 1.5, 'ERROR:PARAMETER_NOT_LIST_ELEMENT_TYPE')
    """
    if name in _CALCULATIONS:
        return _calculate(current, name, parameter)
    if name not in ("append", "extend", "remove_first", "remove_last"):
        return parameter if name in ("overwrite", "set") else None
    values: Any = [] if current is None and name in ("append", "extend") else current
    if not isinstance(values, list):
        return "ERROR:VARIABLE_NOT_LIST"
    items = cast("list[Any]", values)
    if name.startswith("remove"):
        return items[1:] if name == "remove_first" else items[:-1]
    added = [parameter] if name == "append" else parameter
    if not isinstance(added, list):
        return "ERROR:PARAMETER_NOT_LIST"
    if items and added and not isinstance(added[0], type(items[0])):
        return "ERROR:PARAMETER_NOT_LIST_ELEMENT_TYPE"
    return [*items, *cast("list[Any]", added)]


_CALCULATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+=": operator.add,
    "-=": operator.sub,
    "*=": operator.mul,
    "/=": lambda left, right: left / right,
}


def _calculate(current: Any, name: str, parameter: Any) -> Any:
    for number in (current, parameter):
        if isinstance(number, bool) or not isinstance(number, int | float):
            return "ERROR:VARIABLE_NOT_NUMBER or PARAMETER_NOT_NUMBER"
    if name == "/=" and not parameter:
        return "ERROR:DIVIDE_BY_ZERO"
    result = _CALCULATIONS[name](current, parameter)
    return float(result) if abs(result) >= 2**63 else result  # no checkpoint can store a longer integer


@worker_task("Reading the result of the code")
def code_outputs(value: JsonValue, declared: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return the outputs of CodeExec for the value of ``main``: one of them has it, if it has the declared type."""
    names = [name for name in declared if name not in SYSTEM_OUTPUTS]
    if len(names) == 1:
        error = _find_mismatch(type_name(as_text(as_map(declared[names[0]]).get("type"))), value, "")
    else:
        error = f"CodeExec contract must contain exactly one business output, got {len(names)}"
    results = dict.fromkeys(names, None if error else value)
    return {**results, "_ERROR": error, "raw_result": value, "actual_type": type_of(value), "content": text_of(value)}


def _find_mismatch(expected: str, value: JsonValue, path: str) -> str:
    if expected in ("", "Any"):
        return ""
    if expected.startswith("Array<") and isinstance(value, list):
        places = (_find_mismatch(expected[6:-1], item, f"{path}[{at}]") for at, item in enumerate(value))
        return next(filter(None, places), "")
    if (actual := type_of(value)) == expected:
        return ""
    return f"CodeExec contract mismatch at {path or 'value'}: expected type {expected}, got {actual}"


# Texts


def python_text(value: Any) -> str:
    """Return a value in Python's notation; null is an empty text.

    >>> python_text(["a", None]), python_text(True)
    ("['a', None]", 'True')
    """
    return "" if value is None else str(value)


def query_texts(value: Any) -> str | list[str]:
    """Return the texts that a query string or a form has for a value: of a map, its keys."""
    if isinstance(value, list | dict):
        return [str(item) for item in cast("list[Any]", value) if item is not None]
    return python_text(value)


_AFTER = re.compile(r" *\}*")


def close_gaps(template: Template) -> Template:
    """Return a text as a streamed Message reads it: without the spaces next to references, and aliases are text.

    >>> query, item = Reference("global", "sys.query", "sys.query"), Reference("alias", "item", "item")
    >>> [str(s) for s in close_gaps(Template("", ("Dear ", query, " of ", item))).segments]
    ['Dear', 'sys.query', 'of {item}']
    """
    parts: list[str | Reference] = [""]
    for segment in template.segments:
        if isinstance(segment, Reference) and segment.kind != "alias":
            parts += [segment, ""]
        else:
            parts[-1] = f"{parts[-1]}{{{segment}}}" if isinstance(segment, Reference) else f"{parts[-1]}{segment}"
    for index in range(0, len(parts), 2):
        text = str(parts[index])
        text = _AFTER.sub("", text, count=1) if index else text
        parts[index] = text.rstrip(" ").rstrip("{") if index + 1 < len(parts) else text
    return Template(template.source, tuple(part for part in parts if part != ""))


def match_category(answer: str, names: Sequence[str]) -> str | None:
    """Return the category whose name occurs most often in an answer, also inside of words and of other names.

    >>> match_category("order status", ["order", "order status"])
    'order'
    """
    answer = answer.lower()
    best = max(names, key=lambda name: answer.count(name.lower()))
    return best if best.lower() in answer else None


def strip_thoughts(answer: str) -> str:
    """Return what follows the last closing tag of an answer, unless no opening tag precedes it.

    >>> strip_thoughts("<think>a</think>b</think>c"), strip_thoughts("a</think>b")
    ('c', 'a</think>b')
    """
    thought, _, text = answer.rpartition("</think>")
    return text if "<think>" in thought else answer


def strip_user_label(question: str) -> str:
    """Return a question without ``user`` and the signs after it.

    >>> strip_user_label("User: rice"), strip_user_label("users of rice")
    ('rice', 's of rice')
    """
    return re.sub(r"^user[:：\s]*", "", question, flags=re.IGNORECASE)


class PieceReader:
    """Reads the pieces of a streamed answer: a piece that begins with the text so far counts as the whole text."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0

    def read(self, piece: str) -> str:
        """Return the new part of a piece."""
        is_whole = len(piece) >= self._length and piece.startswith("".join(self._pieces))
        new = piece[self._length :] if is_whole else piece
        self._pieces.append(new)
        self._length += len(new)
        return new
