"""The rows of a statement: read up to the limits, and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from itertools import count
from typing import Any, cast

from msgspec import Struct

from ragflow_lg.base.values import JsonValue
from ragflow_lg.services.databases import StatementResult


class RowLimits(Struct, frozen=True):
    """How much of a result is read."""

    rows: int
    bytes: int

    @property
    def error(self) -> str:
        """What is wrong with a result above the limit of bytes."""
        return f"Its result is larger than {self.bytes:,} bytes. Select less."


def read_rows(
    sql: str, titles: Sequence[str] | None, cursor: Any, limits: RowLimits, chunk_rows: int
) -> StatementResult:
    """Return rows up to the limits. ``chunk_rows`` of them are in memory at once; without titles, there are none."""
    if titles is None:
        return StatementResult(sql, changed=cursor.rowcount)
    columns = tuple(map(str, titles))
    names = distinct_names(columns)
    rows: list[dict[str, JsonValue]] = []
    size = 0
    while chunk := cursor.fetchmany(min(chunk_rows, limits.rows + 1 - len(rows))):
        for row in chunk:
            entries = [to_json_value(value) for value in row]
            size += len(json.dumps(entries, ensure_ascii=False))
            rows.append(dict(zip(names, entries, strict=True)))
        if size > limits.bytes:
            return StatementResult(sql, error=limits.error)
        if len(rows) > limits.rows:
            return StatementResult(sql, columns, rows[: limits.rows], has_more=True)
    return StatementResult(sql, columns, rows)


def distinct_names(columns: Sequence[str]) -> list[str]:
    """Return a name for each column: its title, with a number if an earlier column has the same one.

    >>> distinct_names(["id", "name", "id", "id_2", "id"])
    ['id', 'name', 'id_3', 'id_2', 'id_4']
    """
    taken, names = set(columns), list[str]()
    for index, column in enumerate(columns):
        others = (f"{column}_{number}" for number in count(2))
        names.append(next(name for name in others if name not in taken) if column in columns[:index] else column)
        taken.add(names[-1])
    return names


def to_json_value(value: Any) -> JsonValue:
    """Return a column's value as JSON: points in time as ``YYYY-MM-DD``, decimals as numbers, other types as text.

    Source: RAGFlow's ``agent/tools/exesql.py``.

    >>> to_json_value(date(2026, 5, 4)), to_json_value(Decimal("1.50")), to_json_value(float("nan"))
    ('2026-05-04', 1.5, None)
    >>> to_json_value(b"abc"), to_json_value(bytes([255])), to_json_value(time(7, 30))
    ('abc', 'ff', '07:30:00')
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float() | Decimal():
            number = float(value)
            return number if math.isfinite(number) else None
        case date():
            return value.strftime("%Y-%m-%d")
        case time():
            return value.isoformat()
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
