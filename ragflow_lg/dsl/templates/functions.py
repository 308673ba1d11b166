"""Functions, filters and methods for Jinja templates. Each builds a value of bounded size in bounded time.

Jinja's own versions are used if they are bounded. The others are reimplemented with the same behaviour.
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
from ragflow_lg.dsl.templates.render_budget import MAX_OUTPUT_CHARS, MAX_RANGE, charge

MAX_DIGITS = 1000
"""Maximum length of a text that is parsed as an integer."""

_TOO_LONG = "the text or list would be too long"
_TOO_LARGE = "the number would be too large"


def find_operand_problem(operator: str, left: Any, right: Any) -> str:
    """Return why the result could be too large (huge texts or numbers, formatting, sets), or ``""``."""
    operands = (left, right)
    if any(isinstance(operand, Undefined) for operand in operands):
        return ""  # Jinja raises an error
    if operator == "%" and isinstance(left, str):
        return "text formatting is not supported; use ~ to join texts"
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
    """Convert a value to text as elsewhere in the project."""
    if isinstance(value, Undefined):
        return str(value)
    if isinstance(value, Iterable) and not isinstance(value, str | list | tuple | dict):
        value = list(cast("Iterable[Any]", value))
    return to_text(charge(cast("Any", value)))


# Functions


class _Namespace(Namespace):
    """Jinja's namespace, printed without its contents because nested namespaces could grow exponentially."""

    def __repr__(self) -> str:
        return "<Namespace>"


def _bounded_range(*bounds: int) -> range:
    numbers = range(*bounds)
    if len(numbers) > MAX_RANGE:
        raise SecurityError(f"range() is limited to {MAX_RANGE:,} numbers")
    return numbers


def _build_dict(source: Any = (), /, **entries: Any) -> dict[Any, Any]:
    """Build a map. The keys of pairs must be text, because numbers could be chosen so that their hashes collide."""
    if isinstance(source, dict):
        return {**cast("dict[Any, Any]", source), **entries}
    pairs: dict[Any, Any] = {}
    for key, value in source:
        if not isinstance(key, str):
            raise SecurityError("map keys must be text")
        pairs[key] = value
    return {**pairs, **entries}


def _namespace(source: Any = (), /, **entries: Any) -> Namespace:
    return _Namespace(_build_dict(source, **entries))


FUNCTIONS: Mapping[str, Callable[..., Any]] = {"dict": _build_dict, "namespace": _namespace, "range": _bounded_range}


# Filters


def _replace(text: Any, old: str, new: str, count: int | None = None) -> str:
    text = format_value(text)
    if len(text) + text.count(old) * len(new) > MAX_OUTPUT_CHARS:
        raise SecurityError(_TOO_LONG)
    return text.replace(old, new, -1 if count is None else count)


@pass_environment
def _join_filter(environment: Environment, values: Iterable[Any], separator: str = "", attribute: Any = None) -> str:
    return _join(_attributes(environment, values, attribute), separator)


def _join(values: Iterable[Any], separator: str) -> str:
    texts = [format_value(value) for value in values]
    if len(texts) * len(separator) > MAX_OUTPUT_CHARS:
        raise SecurityError(_TOO_LONG)
    return separator.join(texts)


@pass_environment
def _sum(environment: Environment, values: Iterable[Any], attribute: Any = None, start: float = 0) -> float:
    """Add numbers. Jinja's own filter also adds lists, copying the sum in every step."""
    total = start
    for value in _attributes(environment, values, attribute):
        if not isinstance(value, int | float):
            raise SecurityError("only numbers can be summed")
        total += value
    return total


@pass_environment
def _unique(
    environment: Environment, values: Iterable[Any], case_sensitive: bool = False, attribute: Any = None
) -> Iterator[Any]:
    """Drop duplicates. Values are compared as text, whose hashes cannot be made to collide."""
    seen: set[str] = set()
    for value in values:
        (key,) = _attributes(environment, [value], attribute)
        text = _distinct_text(key)
        text = text if case_sensitive else text.lower()
        if text not in seen:
            seen.add(text)
            yield value


def _distinct_text(value: Any) -> str:
    """Convert a value to text. The texts are equal only for equal values; 1, 1.0 and true count as equal."""
    if isinstance(value, float) and not value.is_integer():
        return f"number {value!r}"
    if isinstance(value, int | float):
        return f"number {int(value):x}"
    return f"{type(value).__name__ if not isinstance(value, str) else 'text'} {format_value(value)}"


def _attributes(environment: Environment, values: Iterable[Any], attribute: Any) -> Iterable[Any]:
    return values if attribute is None else map(jinja.make_attrgetter(environment, attribute), values)


def _round(value: float, precision: int = 0) -> float:
    if abs(precision) > 20:
        raise SecurityError("numbers can be rounded to at most 20 digits")
    return round(value, precision)


def _int(value: Any, default: int = 0, base: int = 10) -> int:
    if isinstance(value, str) and len(value) > MAX_DIGITS:
        raise SecurityError(_TOO_LARGE)
    return jinja.do_int(value, default, base)


def _indent(value: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    text = format_value(value)
    indent = len(width) if isinstance(width, str) else width
    if (len(text.splitlines()) + 1) * indent > MAX_OUTPUT_CHARS:
        raise SecurityError(_TOO_LONG)
    return jinja.do_indent(text, width, first, blank)


def _batch(values: Iterable[Any], size: int, fill: Any = None) -> Iterator[list[Any]]:
    if size > MAX_RANGE:
        raise SecurityError(_TOO_LONG)
    return jinja.do_batch(values, size, fill)


def _slice(values: Iterable[Any], count: int, fill: Any = None) -> Iterator[list[Any]]:
    if count > MAX_RANGE:
        raise SecurityError(_TOO_LONG)
    return jinja.sync_do_slice(cast("list[Any]", values), count, fill)


def _strip_tags(value: Any) -> str:
    """Remove tags and comments in linear time. Jinja's own filter copies the text for each comment."""
    text = _cut_between(_cut_between(format_value(value), "<!--", "-->"), "<", ">")
    return html.unescape(" ".join(text.split()))


def _cut_between(text: str, opening: str, closing: str) -> str:
    pieces: list[str] = []
    place = 0
    while (begin := text.find(opening, place)) >= 0 and (end := text.find(closing, begin)) >= 0:
        pieces.append(text[place:begin])
        place = end + len(closing)
    return "".join((*pieces, text[place:]))


def _identity(value: Any) -> Any:
    return value


_JINJA_FILTERS = (
    *("abs", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float", "groupby", "items"),
    *("last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "reverse", "select"),
    *("selectattr", "sort", "title", "trim", "truncate", "upper", "urlencode", "wordcount"),
)
"""The supported filters of Jinja."""

FILTERS: Mapping[str, Callable[..., Any]] = {
    **{name: jinja.FILTERS[name] for name in _JINJA_FILTERS},
    "batch": _batch,
    "charged": _identity,
    "indent": _indent,
    "int": _int,
    "join": _join_filter,
    "replace": _replace,
    "round": _round,
    "safe": format_value,
    "slice": _slice,
    "string": format_value,
    "striptags": _strip_tags,
    "sum": _sum,
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
"""Methods of text, lists and maps whose result is never larger than the object itself."""


def _join_method(separator: str, values: Iterable[Any]) -> str:
    return _join(values, separator)


TEXT_METHODS: Mapping[str, Callable[..., str]] = {"join": _join_method, "replace": _replace}
"""Replacements for Python's string methods, by name; the text is the first argument."""


def list_forbidden_methods() -> frozenset[str]:
    """Return the methods that values have in Python but not in templates."""
    names = {name for kind in (str, list, dict, int, float) for name in dir(kind) if not name.startswith("_")}
    return frozenset(names - METHODS - TEXT_METHODS.keys())
