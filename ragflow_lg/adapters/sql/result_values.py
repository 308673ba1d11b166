"""Values of database columns as JSON, as RAGFlow gives them. Source: RAGFlow's ``agent/tools/exesql.py``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, cast

from ragflow_lg.base.values import JsonValue


def to_json_value(value: Any) -> JsonValue:
    """Return a column's value as JSON: points in time as ``YYYY-MM-DD``, decimals as numbers, other types as text.

    >>> to_json_value(datetime(2026, 5, 4, 3, 2)), to_json_value(Decimal("1.50")), to_json_value(float("nan"))
    ('2026-05-04', 1.5, None)
    >>> to_json_value(b"abc"), to_json_value(bytes([255])), to_json_value(timedelta(hours=1))
    ('abc', 'ff', '1:00:00')
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float() | Decimal():
            number = float(value)
            return number if math.isfinite(number) else None
        case datetime() | date():
            return value.strftime("%Y-%m-%d")
        case time():
            return value.isoformat()
        case timedelta():
            return str(value)
        case bytes() | bytearray() | memoryview():
            return _text_of(bytes(cast("bytes", value)))
        case Mapping():
            entries = cast("Mapping[Any, Any]", value)
            return {str(key): to_json_value(entry) for key, entry in entries.items()}
        case list() | tuple() | set() | frozenset():
            return [to_json_value(entry) for entry in cast("list[Any]", value)]
        case _:
            return str(value)


def _text_of(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.hex()


def size_of_value(value: JsonValue) -> int:
    """Return about how many bytes a value takes."""
    if isinstance(value, str):
        return len(value) + 2
    if isinstance(value, Mapping | list):
        entries: Any = cast("Any", value).items() if isinstance(value, Mapping) else value
        return 2 + sum(size_of_value(entry) for entry in entries)
    if isinstance(value, tuple):
        return sum(size_of_value(entry) for entry in cast("tuple[Any, ...]", value))
    return 8
