"""Functions, filters and methods that Jinja templates have here: each makes a bounded value in a bounded step.

Jinja's own are taken where that is so of them. The others are written anew, with the same meaning.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from jinja2 import Environment, Undefined, pass_environment
from jinja2 import filters as jinja
from jinja2.exceptions import SecurityError
from jinja2.utils import Namespace

from ragflow_lg.base.values import to_text
from ragflow_lg.templates.render_budget import MAX_OUTPUT_CHARS, MAX_RANGE, charge

__all__ = [
    "FILTERS",
    "FUNCTIONS",
    "METHODS",
    "TEXT_METHODS",
    "find_operand_problem",
    "format_value",
    "list_forbidden_methods",
]

MAX_DIGITS = 1000
"""Longest text that is read as a whole number."""

_TOO_LONG = "texts and lists this long are not made"
_TOO_LARGE = "numbers this large are not computed"


def find_operand_problem(operator: str, left: Any, right: Any) -> str:
    """Give why an operation could grow without bound, or ``""``: huge texts, huge numbers, formatting, sets."""
    operands = (left, right)
    if any(isinstance(operand, Undefined) for operand in operands):
        return ""  # Jinja refuses it
    if operator == "%" and isinstance(left, str):
        return "text formatting is not offered; use ~ to join texts"
    if operator not in "+*" and not all(isinstance(n, int | float) for n in operands):
        return f"{operator} works on numbers only"
    if operator == "**":
        return "" if all(abs(n) <= 1000 for n in operands) else _TOO_LARGE
    if all(isinstance(n, int) for n in operands):
        return "" if all(abs(n) < 2**256 for n in operands) else _TOO_LARGE
    length = sum(len(cast("list[Any]", v)) for v in operands if isinstance(v, str | list | tuple))
    times = max((n for n in operands if isinstance(n, int)), default=1) if operator == "*" else 1
    return _TOO_LONG if length * times > MAX_OUTPUT_CHARS else ""


def format_value(value: Any) -> str:
    """Write a value as everywhere else."""
    if isinstance(value, Undefined):
        return str(value)
    if isinstance(value, Iterable) and not isinstance(value, str | list | tuple | dict):
        value = list(cast("Iterable[Any]", value))
    return to_text(charge(cast("Any", value)))


# Functions


class _Namespace(Namespace):
    """Jinja's, but printed without what it holds: one may hold others, and each of them twice."""

    def __repr__(self) -> str:
        return "<Namespace>"


def _bounded_range(*bounds: int) -> range:
    numbers = range(*bounds)
    if len(numbers) > MAX_RANGE:
        raise SecurityError(f"range() gives at most {MAX_RANGE:,} numbers")
    return numbers


def _map(given: Any = (), /, **entries: Any) -> dict[Any, Any]:
    """Make a map. Pairs have texts as keys: numbers can be chosen so that each is compared with all others."""
    if isinstance(given, dict):
        return {**cast("dict[Any, Any]", given), **entries}
    found: dict[Any, Any] = {}
    for key, value in given:
        if not isinstance(key, str):
            raise SecurityError("the keys of a map are texts")
        found[key] = value
    return {**found, **entries}


def _namespace(given: Any = (), /, **entries: Any) -> Namespace:
    return _Namespace(_map(given, **entries))


FUNCTIONS: Mapping[str, Callable[..., Any]] = {"dict": _map, "namespace": _namespace, "range": _bounded_range}


# Filters


def _replaced(text: Any, old: str, new: str, count: int | None = None) -> str:
    text = format_value(text)
    if len(text) + text.count(old) * len(new) > MAX_OUTPUT_CHARS:
        raise SecurityError(_TOO_LONG)
    return text.replace(old, new, -1 if count is None else count)


@pass_environment
def _joined(environment: Environment, values: Iterable[Any], separator: str = "", attribute: Any = None) -> str:
    return _join(_attributes(environment, values, attribute), separator)


def _join(values: Iterable[Any], separator: str) -> str:
    texts = [format_value(value) for value in values]
    if len(texts) * len(separator) > MAX_OUTPUT_CHARS:
        raise SecurityError(_TOO_LONG)
    return separator.join(texts)


@pass_environment
def _total(environment: Environment, values: Iterable[Any], attribute: Any = None, start: float = 0) -> float:
    """Add numbers. Jinja's own filter adds lists as well, and copies what it has at every step."""
    total = start
    for value in _attributes(environment, values, attribute):
        if not isinstance(value, int | float):
            raise SecurityError("only numbers are added up")
        total += value
    return total


@pass_environment
def _unique(
    environment: Environment, values: Iterable[Any], case_sensitive: bool = False, attribute: Any = None
) -> Iterator[Any]:
    """Leave out repetitions. They are told by texts, whose hashes nobody can make collide."""
    seen: set[str] = set()
    for value in values:
        (key,) = _attributes(environment, [value], attribute)
        text = _distinct(key)
        text = text if case_sensitive else text.lower()
        if text not in seen:
            seen.add(text)
            yield value


def _distinct(value: Any) -> str:
    """Write a value so that only equal ones are alike; 1, 1.0 and true are equal."""
    if isinstance(value, float) and not value.is_integer():
        return f"number {value!r}"
    if isinstance(value, int | float):
        return f"number {int(value):x}"
    return f"{type(value).__name__ if not isinstance(value, str) else 'text'} {format_value(value)}"


def _attributes(environment: Environment, values: Iterable[Any], attribute: Any) -> Iterable[Any]:
    return values if attribute is None else map(jinja.make_attrgetter(environment, attribute), values)


def _rounded(value: float, precision: int = 0) -> float:
    if abs(precision) > 20:
        raise SecurityError("numbers are rounded to at most 20 digits")
    return round(value, precision)


def _whole(value: Any, default: int = 0, base: int = 10) -> int:
    if isinstance(value, str) and len(value) > MAX_DIGITS:
        raise SecurityError(_TOO_LARGE)
    return jinja.do_int(value, default, base)


def _indented(value: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    text = format_value(value)
    indent = len(width) if isinstance(width, str) else width
    if (len(text.splitlines()) + 1) * indent > MAX_OUTPUT_CHARS:
        raise SecurityError(_TOO_LONG)
    return jinja.do_indent(text, width, first, blank)


def _batches(values: Iterable[Any], size: int, fill: Any = None) -> Iterator[list[Any]]:
    if size > MAX_RANGE:
        raise SecurityError(_TOO_LONG)
    return jinja.do_batch(values, size, fill)


def _slices(values: Iterable[Any], count: int, fill: Any = None) -> Iterator[list[Any]]:
    if count > MAX_RANGE:
        raise SecurityError(_TOO_LONG)
    return jinja.sync_do_slice(cast("list[Any]", values), count, fill)


def _without_tags(value: Any) -> str:
    """Leave out tags and comments, in linear time: Jinja's own filter copies the text for each comment."""
    text = _cut(_cut(format_value(value), "<!--", "-->"), "<", ">")
    return html.unescape(" ".join(text.split()))


def _cut(text: str, opening: str, closing: str) -> str:
    pieces: list[str] = []
    place = 0
    while (begin := text.find(opening, place)) >= 0 and (end := text.find(closing, begin)) >= 0:
        pieces.append(text[place:begin])
        place = end + len(closing)
    return "".join((*pieces, text[place:]))


def _same(value: Any) -> Any:
    return value


_JINJAS = (
    *("abs", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float", "groupby", "items"),
    *("last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "reverse", "select"),
    *("selectattr", "sort", "title", "trim", "truncate", "upper", "urlencode", "wordcount"),
)
"""Jinja's own filters that are offered."""

FILTERS: Mapping[str, Callable[..., Any]] = {
    **{name: jinja.FILTERS[name] for name in _JINJAS},
    "batch": _batches,
    "charged": _same,
    "indent": _indented,
    "int": _whole,
    "join": _joined,
    "replace": _replaced,
    "round": _rounded,
    "safe": format_value,
    "slice": _slices,
    "string": format_value,
    "striptags": _without_tags,
    "sum": _total,
    "tojson": format_value,
    "unique": _unique,
}


# Methods

METHODS = frozenset(
    (
        *("capitalize", "casefold", "count", "endswith", "find", "get", "index", "isalnum", "isalpha", "isascii"),
        *("isdecimal", "isdigit", "isidentifier", "islower", "isnumeric", "isspace", "istitle", "isupper", "items"),
        *("keys", "lower", "lstrip", "partition", "removeprefix", "removesuffix", "rfind", "rindex", "rpartition"),
        *("rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "swapcase", "title", "upper", "values"),
    )
)
"""Methods of texts, lists and maps that make nothing larger than what they are called on."""


def _join_method(separator: str, values: Iterable[Any]) -> str:
    return _join(values, separator)


TEXT_METHODS: Mapping[str, Callable[..., str]] = {"join": _join_method, "replace": _replaced}
"""Methods of texts that stand in for Python's, by name; the text comes first."""


def list_forbidden_methods() -> frozenset[str]:
    """Give the methods that values have in Python and do not have in a template."""
    names = {name for kind in (str, list, dict, int, float) for name in dir(kind) if not name.startswith("_")}
    return frozenset(names - METHODS - TEXT_METHODS.keys())
