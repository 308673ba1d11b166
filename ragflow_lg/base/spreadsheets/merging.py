"""Several tables as one: below each other, or joined on a column."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import cast

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.spreadsheets.tables import Cell, CellCount, Row, Table, plain_cell

MERGED = "merged"


def concatenate(tables: Sequence[Table]) -> Table:
    """Return the rows of all tables below each other, with the columns of all. Missing cells are null."""
    columns = list(dict.fromkeys(name for table in tables for name in table.columns))
    return Table(MERGED, "", columns, _concatenated_rows(tables, columns))


def _concatenated_rows(tables: Sequence[Table], columns: Sequence[str]) -> Iterator[Row]:
    for table in tables:
        positions = {name: index for index, name in enumerate(table.columns)}
        places = [positions.get(name) for name in columns]
        for row in table.rows:
            yield [None if place is None else row[place] for place in places]


def join(tables: Sequence[Table], column: str, count: CellCount) -> Table:
    """Join tables on a column, one after the other, as pandas does: an outer join, sorted by the column.

    Other columns with the same name get the suffixes ``_x`` and ``_y``.

    Raises:
        ServiceError: if a table lacks the column, or the result has too many cells.
    """
    for table in tables:
        if column not in table.columns:
            names = ", ".join(map(repr, table.columns[:10]))
            raise ServiceError(f"{table.place} has no column {column!r} to join on; it has {names or 'none'}")
    first, *others = tables
    columns, rows = first.columns, [list(row) for row in first.rows]
    for table in others:
        columns, rows = _join_two(columns, rows, table, column, count)
    return Table(MERGED, "", columns, iter(rows))


def _join_two(
    columns: list[str], rows: list[list[Cell]], other: Table, column: str, count: CellCount
) -> tuple[list[str], list[list[Cell]]]:
    key, other_key = columns.index(column), other.columns.index(column)
    others: dict[Hashable, list[list[Cell]]] = {}
    for row in other.rows:
        cells = list(row)
        others.setdefault(_key(cells.pop(other_key)), []).append([row[other_key], *cells])
    width = len(other.columns) - 1
    joined: list[list[Cell]] = []
    found: set[Hashable] = set()
    for row in rows:
        matches = others.get(_key(row[key]), [])
        found.update([_key(row[key])] if matches else [])
        for match in matches or [[None] * (1 + width)]:
            count.add(len(row) + width, other.place, len(joined) + 1)
            joined.append([*row, *match[1:]])
    for matches in (matches for value, matches in others.items() if value not in found):
        for match in matches:
            count.add(len(columns) + width, other.place, len(joined) + 1)
            blank: list[Cell] = [None] * len(columns)
            blank[key] = match[0]
            joined.append([*blank, *match[1:]])
    joined.sort(key=lambda row: _order(row[key]))
    added = [name for name in other.columns if name != column]
    shared = (set(columns) - {column}) & set(added)
    return [
        *(f"{name}_x" if name in shared else name for name in columns),
        *(f"{name}_y" if name in shared else name for name in added),
    ], joined


def _key(value: Cell) -> Hashable:
    """Return what is compared. ``1`` and ``true`` are different values, although they are equal in Python."""
    return ("bool", value) if isinstance(value, bool) else cast("Hashable", value)


def _order(value: Cell) -> tuple[int, float, str]:
    """Sort numbers before texts, and nulls last."""
    if value is None:
        return 2, 0.0, ""
    if isinstance(value, int | float):
        return 0, float(value), ""
    return 1, 0.0, str(plain_cell(value))
