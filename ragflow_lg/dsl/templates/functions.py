"""Functions, filters and methods for Jinja templates. Each builds a value of bounded size in bounded time.

Jinja's own versions are used if they are bounded. The others are reimplemented with the same behaviour.
"""

from __future__ import annotations

import functools
import html
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, cast

from jinja2 import Environment, Undefined, pass_environment, pass_eval_context
from jinja2 import filters as jinja
from jinja2.exceptions import SecurityError
from jinja2.nodes import EvalContext
from jinja2.utils import Namespace

from ragflow_lg.base.values import to_text
from ragflow_lg.base.worker_tasks import measure
from ragflow_lg.dsl.templates.render_budget import MAX_OUTPUT_CHARS, MAX_RANGE, charge

MAX_DIGITS = 1000
"""Maximum length of a text that is parsed as an integer."""

MAX_INDENT = 16

MAX_PRINTED = 100_000
"""Size of the values for filters of Jinja whose time grows with the square of it."""

_HTML_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&'"}

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
    return to_text(charge(_without_iterator(value)))


def _without_iterator(value: Any) -> Any:
    """Return a value that is computed on demand as a list."""
    is_iterator = isinstance(value, Iterable) and not isinstance(value, str | list | tuple | dict | Undefined)
    return list(cast("Iterable[Any]", value)) if is_iterator else cast("Any", value)


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


def _replace(text: str, old: str, new: str, count: int | None = None) -> str:
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


def _to_json(value: Any, indent: int | None = None) -> str:
    """Return JSON with sorted keys, escaped for HTML, as in Jinja."""
    if indent is not None and indent > MAX_INDENT:
        raise SecurityError(f"JSON can be indented by at most {MAX_INDENT} blanks")
    encoder = json.JSONEncoder(sort_keys=True, indent=indent)
    text = "".join(map(charge, encoder.iterencode(charge(_without_iterator(value)))))
    return jinja.do_mark_safe(text.translate(_HTML_ESCAPES))


def _center(text: str, width: int = 80) -> str:
    if width > MAX_OUTPUT_CHARS:
        raise SecurityError(_TOO_LONG)
    return text.center(width)


@pass_environment
def _wordwrap(
    environment: Environment,
    text: str,
    width: int = 79,
    break_long_words: bool = True,
    wrapstring: str | None = None,
    break_on_hyphens: bool = True,
) -> str:
    if len(text) > MAX_PRINTED:
        raise SecurityError(_TOO_LONG)
    wrapped = jinja.do_wordwrap(environment, text, width, break_long_words, "\n", break_on_hyphens)
    return wrapped if wrapstring is None else _replace(wrapped, "\n", wrapstring)


def _pprint(value: Any) -> str:
    if measure(value, MAX_PRINTED) > MAX_PRINTED:
        raise SecurityError(f"pprint works on values of at most {MAX_PRINTED:,} characters and entries")
    return jinja.do_pprint(value)


@pass_eval_context
def _urlize(
    context: EvalContext,
    text: str,
    trim_url_limit: int | None = None,
    nofollow: bool = False,
    target: str | None = None,
    rel: str | None = None,
    extra_schemes: Iterable[str] | None = None,
) -> str:
    """Turn addresses into links, each of which repeats ``target`` and ``rel``."""
    if len(text) > MAX_PRINTED or len(text) * len(f"{target}{rel}") > MAX_OUTPUT_CHARS:
        raise SecurityError(_TOO_LONG)
    return jinja.do_urlize(context, text, trim_url_limit, nofollow, target, rel, extra_schemes)


def _round(value: float, precision: int = 0, method: Literal["common", "ceil", "floor"] = "common") -> float:
    if abs(precision) > 20:
        raise SecurityError("numbers can be rounded to at most 20 digits")
    return jinja.do_round(value, precision, method)


def _int(value: Any, default: int = 0, base: int = 10) -> int:
    if isinstance(value, str) and len(value) > MAX_DIGITS:
        raise SecurityError(_TOO_LARGE)
    return jinja.do_int(value, default, base)


def _indent(text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
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


def _strip_tags(text: str) -> str:
    """Remove tags and comments in linear time. Jinja's own filter copies the text for each comment."""
    text = _cut_between(_cut_between(text, "<!--", "-->"), "<", ">")
    return html.unescape(" ".join(text.split()))


def _cut_between(text: str, opening: str, closing: str) -> str:
    pieces: list[str] = []
    place = 0
    while (begin := text.find(opening, place)) >= 0 and (end := text.find(closing, begin)) >= 0:
        pieces.append(text[place:begin])
        place = end + len(closing)
    return "".join((*pieces, text[place:]))


def _of_text(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter for texts that takes the text of any other value, as elsewhere: null is empty."""
    is_passed = hasattr(function, "jinja_pass_arg")

    @functools.wraps(function)  # keep the mark that tells Jinja which argument to pass
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        passed, (value, *more) = args[:is_passed], args[is_passed:]
        return function(*passed, format_value(value), *more, **kwargs)

    return wrapper


def _identity(value: Any) -> Any:
    return value


_JINJA_FILTERS = (
    *("abs", "count", "d", "default", "dictsort", "filesizeformat", "first", "float", "groupby", "items", "last"),
    *("length", "list", "map", "max", "min", "reject", "rejectattr", "reverse", "select", "selectattr", "sort"),
    *("urlencode", "xmlattr"),
)
"""Filters of Jinja for any values."""

_TEXT_FILTERS = (
    *("capitalize", "e", "escape", "forceescape", "lower", "title", "trim", "truncate", "upper", "wordcount"),
)
"""Filters of Jinja for texts."""

_OWN_TEXT_FILTERS: Mapping[str, Callable[..., Any]] = {
    "center": _center,
    "indent": _indent,
    "replace": _replace,
    "safe": jinja.do_mark_safe,
    "string": _identity,
    "striptags": _strip_tags,
    "urlize": _urlize,
    "wordwrap": _wordwrap,
}

FILTERS: Mapping[str, Callable[..., Any]] = {
    **{name: jinja.FILTERS[name] for name in _JINJA_FILTERS},
    **{name: _of_text(jinja.FILTERS[name]) for name in _TEXT_FILTERS},
    **{name: _of_text(function) for name, function in _OWN_TEXT_FILTERS.items()},
    "batch": _batch,
    "charged": _identity,
    "int": _int,
    "join": _join_filter,
    "pprint": _pprint,
    "round": _round,
    "slice": _slice,
    "sum": _sum,
    "tojson": _to_json,
    "unique": _unique,
}
"""All filters of Jinja but ``attr``, ``format`` and ``random``."""


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
