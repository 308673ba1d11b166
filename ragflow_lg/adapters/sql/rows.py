"""The rows of a statement: read up to the limits, and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from ragflow_lg.base.values import JsonValue

if TYPE_CHECKING:
    from sqlalchemy import Connection


class RowLimits(Struct, frozen=True):
    """How much of a result is read."""

    rows: int
    bytes: int


class Rows(Struct, frozen=True):
    """The result of a statement. ``columns`` is None if it returns no rows."""

    columns: tuple[str, ...] | None
    rows: list[dict[str, JsonValue]]
    changed: int = -1
    is_cut: bool = False
    """Whether there are more rows. The result is then still open, because closing it may read all of them."""


def read_rows(
    connection: Connection,
    text: str,
    values: tuple[Any, ...],
    limits: RowLimits,
    *,
    is_read: bool,
    streams: bool,
    chunk_rows: int,
) -> Rows:
    """Run a statement and read its rows. What does not merely read is committed.

    A result that is larger than the limit has no columns and is cut.
    """
    options: dict[str, Any] = {"stream_results": streams}
    if not values:
        options["no_parameters"] = True  # some drivers would look for marks
    result = connection.exec_driver_sql(text, values or None, execution_options=options)
    if not result.returns_rows:
        if not is_read:
            connection.commit()
        return Rows(None, [], result.rowcount)
    rows = rows_of(list(result.keys()), result.fetchmany, limits, chunk_rows=chunk_rows)
    if not rows.is_cut:
        result.close()
        if not is_read:
            connection.commit()
    return rows


def rows_of(
    titles: Sequence[str], fetch: Callable[[int], Sequence[Sequence[Any]]], limits: RowLimits, *, chunk_rows: int
) -> Rows:
    """Return rows up to the limits. ``fetch`` returns the next rows, of which ``chunk_rows`` are in memory at once."""
    columns = tuple(map(str, titles))
    names = distinct_names(columns)
    rows: list[dict[str, JsonValue]] = []
    size = 0
    while chunk := fetch(min(chunk_rows, limits.rows + 1 - len(rows))):
        for row in chunk:
            entries = [to_json_value(value) for value in row]
            size += len(json.dumps(entries, ensure_ascii=False))
            rows.append(dict(zip(names, entries, strict=True)))
        if size > limits.bytes:
            return Rows(None, [], is_cut=True)
        if len(rows) > limits.rows:
            return Rows(columns, rows[: limits.rows], is_cut=True)
    return Rows(columns, rows)


def distinct_names(columns: Sequence[str]) -> list[str]:
    """Return a name for each column: its title, with a number if an earlier column has the same one.

    >>> distinct_names(["id", "name", "id", "id_2", "id"])
    ['id', 'name', 'id_3', 'id_2', 'id_4']
    """
    taken, counts, names = set(columns), dict[str, int](), list[str]()
    for column in columns:
        name, number = column, counts.get(column, 0) + 1
        while number > 1 and (name := f"{column}_{number}") in taken:
            number += 1
        counts[column] = number
        taken.add(name)
        names.append(name)
    return names


def to_json_value(value: Any) -> JsonValue:
    """Return a column's value as JSON: points in time as ``YYYY-MM-DD``, decimals as numbers, other types as text.

    Source: RAGFlow's ``agent/tools/exesql.py``.

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
