"""Values of form fields: what each type of field accepts, and what it becomes.

``docs/conversations.md`` has the table. RAGFlow keeps whatever a client sends.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from ragflow_lg.base.errors import ForeignJsonError
from ragflow_lg.base.json_scanner import parse_foreign_json
from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.base.values import JsonValue, to_text

MAX_DIGITS = 308
"""Number of digits that every number may have; the largest float has 309."""

_BOOLEANS = {**dict.fromkeys(("true", "yes", "on", "1"), True), **dict.fromkeys(("false", "no", "off", "0"), False)}
_TEXTS = frozenset(("line", "paragraph", "text", "string"))
_LISTS = re.compile("list|array|multi|checkbox")
_NAMED_OPTIONS = 20
"""How many options a message names."""


class UnfitValueError(ValueError):
    """A value that a field does not accept. The text says what the field expects; ``value`` is the part at fault."""

    def __init__(self, expected: str, value: Any) -> None:
        self.value = value
        super().__init__(expected)


def convert_value(value: Any, type_name: str, options: Sequence[JsonValue] = ()) -> JsonValue:
    """Return a value as the type of a field. Blank text is no value, except in a field for text.

    A field of another type, and a field for files, keep every value.

    Raises:
        UnfitValueError: if the field does not accept it.

    >>> convert_value("no", "boolean"), convert_value(" 7 ", "integer"), convert_value(5, "line")
    (False, 7, '5')
    """
    kind = type_name.strip().lower()
    if value is None:
        return None
    if kind in _TEXTS:
        return value if is_map_or_list(value) else to_text(value)
    convert = _CONVERTERS.get(kind)
    is_list = convert is None and _LISTS.match(kind) is not None
    is_choice = kind == "options" and bool(options)
    if isinstance(value, str) and not value.strip() and (convert is not None or is_list or is_choice):
        return value if is_choice and value in option_texts(options) else None
    if is_choice:
        return _read_option(value, options)
    if is_list:
        return _read_list(value, kind, options)
    return value if convert is None else convert(value)


def option_texts(options: Iterable[JsonValue]) -> list[str]:
    """Return the texts by which options are selected."""
    return [to_text(option_value(option)) for option in options]


def option_value(option: JsonValue) -> JsonValue:
    """Return the value of an option: an option that is a map has a ``value`` or else a ``label``.

    >>> option_value({"label": "Small", "value": 1}), option_value("L")
    (1, 'L')
    """
    return as_map(option).get("value", as_map(option).get("label")) if isinstance(option, Mapping) else option


def is_map_or_list(value: Any) -> bool:
    """Return whether a value is a map or a list."""
    return isinstance(value, Mapping | list)


def _read_boolean(value: Any) -> bool:
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in _BOOLEANS:
        raise UnfitValueError("true or false", value)
    return _BOOLEANS[word]


def _read_integer(value: Any) -> int:
    number = _read_decimal(value, "a whole number") if isinstance(value, str) else _read_number(value, "a whole number")
    is_whole = number == number.to_integral_value() if isinstance(number, Decimal) else number == int(number)
    if not is_whole:
        raise UnfitValueError("a whole number", value)
    return int(number)


def _read_number(value: Any, expected: str = "a number") -> int | float:
    if isinstance(value, str):
        number = _read_decimal(value, expected)
        return int(number) if number.as_tuple().exponent == 0 else float(number)
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        raise UnfitValueError(expected, value)
    return value


def _is_finite(value: float) -> bool:
    return isinstance(value, int) or math.isfinite(value)


def _read_decimal(text: str, expected: str) -> Decimal:
    """Read a number. The digits of all scripts count, as in Python."""
    if "_" in text:
        raise UnfitValueError(expected, text)
    try:
        number = Decimal(text[: 4 * MAX_DIGITS])
    except InvalidOperation:
        raise UnfitValueError(expected, text) from None
    if not number.is_finite():
        raise UnfitValueError(expected, text)
    if len(text) > 4 * MAX_DIGITS or number.adjusted() >= MAX_DIGITS:
        raise UnfitValueError(f"{expected} of at most {MAX_DIGITS} digits", text)
    return number


def _read_object(value: Any) -> JsonValue:
    parsed = parse_object(value)
    if not is_map_or_list(parsed):
        raise UnfitValueError("a JSON object", value)
    return parsed


def parse_object(value: Any) -> JsonValue:
    """Return the JSON in a text. Any other value is returned unchanged.

    >>> parse_object("[1]"), parse_object("[1")
    ([1], '[1')
    """
    if isinstance(value, str) and value.strip():
        try:
            parsed = parse_foreign_json(value)
            if "NaN" in value or "Infinity" in value:
                json.dumps(parsed, allow_nan=False)  # raises ValueError
        except (ForeignJsonError, ValueError):
            return value
        return parsed
    return value


def _read_option(value: Any, options: Sequence[JsonValue]) -> JsonValue:
    """Return the value of the option that is meant; a client may send it as text."""
    by_text = {to_text(own): own for option in options if not is_map_or_list(own := option_value(option))}
    text = None if is_map_or_list(value) else to_text(value)
    if text is None or text not in by_text:
        named = ", ".join(text[:80] for text in list(by_text)[:_NAMED_OPTIONS])
        raise UnfitValueError(f"one of {named}{', …' if len(by_text) > _NAMED_OPTIONS else ''}", value)
    return by_text[text]


def _read_list(value: Any, kind: str, options: Sequence[JsonValue]) -> JsonValue:
    """Return a list. A text is a list in JSON, or its only entry."""
    parsed = parse_object(value)
    entries = cast("list[Any]", parsed) if isinstance(parsed, list) else [value]
    if isinstance(value, Mapping):
        raise UnfitValueError("a list", value)
    inner = kind.removeprefix("array<").removesuffix(">") if kind.startswith("array<") else ""
    try:
        return [_read_option(e, options) if options else convert_value(e, inner) for e in entries]
    except UnfitValueError as error:
        raise UnfitValueError(f"a list, each entry {error}", error.value) from None


_CONVERTERS: Mapping[str, Callable[[Any], JsonValue]] = {
    "boolean": _read_boolean,
    "integer": _read_integer,
    "number": _read_number,
    "object": _read_object,
}
