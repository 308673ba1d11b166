"""The operations on spreadsheets as worker tasks. Files arrive as bytes; new ones are returned as Base64 texts."""

from __future__ import annotations

import base64
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.spreadsheets.reading import read_tables
from ragflow_lg.base.spreadsheets.tables import (
    Cell,
    Row,
    Table,
    check_cells,
    check_entries,
    markdown_of,
    plain_cell,
    row_maps,
    table_of,
)
from ragflow_lg.base.spreadsheets.writing import write_book, write_text
from ragflow_lg.base.values import JsonValue
from ragflow_lg.base.worker_tasks import worker_task

OutputFormat: TypeAlias = Literal["xlsx", "csv"]

SECONDS = 120
"""Maximum duration of an operation."""

SHOWN_ROWS = 10
SHOWN_MERGED_ROWS = 20
_SHOWN_COLUMNS = 5
_MAX_SHOWN_CHARS = 4 * 1024 * 1024
MAX_OUTPUT_BYTES = 16 * 1024 * 1024
"""Maximum size of a new file."""

_PART_BYTES = 3 * 1024 * 1024


class Reading(NamedTuple):
    """What is read: files, the sheets of them, and how many rows per sheet become part of the output."""

    files: Sequence[tuple[str, bytes]]
    sheets: str = "all"
    max_rows: int | None = None


class Merging(NamedTuple):
    """How tables are merged. ``column`` is the column to join on, ``""`` to put them below each other."""

    column: str = ""


@worker_task("Reading the spreadsheets", seconds=SECONDS, small_size=0)
def read_spreadsheets(reading: Reading) -> dict[str, JsonValue]:
    """Return all sheets as ``data``, ``summary`` and ``markdown``."""
    data: dict[str, Any] = {}
    summaries: list[str] = []
    sections: list[str] = []
    total = 0
    for name, tables in _by_file(reading):
        for table in tables:
            key = _unused(f"{name}_{table.sheet}" if len(tables) > 1 else name, data)
            data[key] = rows = row_maps(table, reading.max_rows)
            total += len(rows) * (1 + len(table.columns))
            check_entries(total, table)
            names = ", ".join(table.columns[:_SHOWN_COLUMNS]) + ("..." if len(table.columns) > _SHOWN_COLUMNS else "")
            sizes = f"{len(table.rows)} rows, {len(table.columns)} columns ({names})"
            summaries.append(f"**{key}**: {sizes}{_kept(rows, table)}")
            sections.append(f"### {key}\n\n{markdown_of(table.columns, rows[:SHOWN_ROWS])}\n")
    return {
        "data": data,
        "summary": "\n".join(summaries) or "No Excel files found",
        "markdown": "\n\n".join(sections)[:_MAX_SHOWN_CHARS] or "No data",
    }


@worker_task("Merging the spreadsheets", seconds=SECONDS, small_size=0)
def merge_spreadsheets(reading: Reading, merging: Merging) -> dict[str, JsonValue]:
    """Return the rows of all sheets as one table: ``data``, ``summary`` and ``markdown``."""
    tables = _all_tables(reading)
    if not tables:
        return {"data": {}, "summary": "No data to merge", "markdown": ""}
    merged = _merge(tables, merging)
    rows = row_maps(merged, reading.max_rows)
    sizes = f"{len(merged.rows)} rows, {len(merged.columns)} columns"
    return {
        "data": cast("JsonValue", {merged.file: rows}),
        "summary": f"Merged {len(tables)} sources into {sizes}{_kept(rows, merged)}",
        "markdown": markdown_of(merged.columns, rows[:SHOWN_MERGED_ROWS])[:_MAX_SHOWN_CHARS],
    }


def _kept(rows: Sequence[Any], table: Table) -> str:
    return f"; data contains the first {len(rows):,}" if len(rows) < len(table.rows) else ""


@worker_task("Writing the spreadsheet", seconds=SECONDS, small_size=0)
def convert_spreadsheets(
    reading: Reading, merging: Merging | None, format_: OutputFormat, allow_formulas: bool
) -> dict[str, JsonValue]:
    """Write the sheets of files to a new file, merged into one if ``merging`` is given. Rows stay in the worker."""
    tables = _all_tables(reading)
    if not tables:
        raise ServiceError("the files have no sheets that are selected")
    return _write([_merge(tables, merging)] if merging else tables, format_, allow_formulas)


@worker_task("Writing the spreadsheet", seconds=SECONDS, small_size=0)
def write_spreadsheet(
    tables: Mapping[str, JsonValue], format_: OutputFormat, allow_formulas: bool
) -> dict[str, JsonValue]:
    """Write values to a new file, each as a sheet."""
    return _write([table_of(name, rows) for name, rows in tables.items()], format_, allow_formulas)


@worker_task("Showing the data", seconds=SECONDS)
def show_tables(tables: Mapping[str, JsonValue]) -> list[dict[str, JsonValue]]:
    """Return each value as ``{"rows", "markdown"}``."""
    shown: list[dict[str, JsonValue]] = []
    for name, value in tables.items():
        table = table_of(name, value)
        rows = row_maps(table)
        shown.append({"rows": cast("JsonValue", rows), "markdown": markdown_of(table.columns, rows)})
    return shown


def _by_file(reading: Reading) -> list[tuple[str, list[Table]]]:
    found: list[tuple[str, list[Table]]] = []
    count = 0
    for name, content in reading.files:
        tables = read_tables(name, content, reading.sheets, count)
        count += sum(len(table.rows) * (1 + len(table.columns)) for table in tables)
        found.append((name, tables))
    return found


def _all_tables(reading: Reading) -> list[Table]:
    return [table for _, tables in _by_file(reading) for table in tables]


def _unused(key: str, names: Mapping[str, Any]) -> str:
    """Return a key, numbered if another file has the same name."""
    number, candidate = 1, key
    while candidate in names:
        number += 1
        candidate = f"{key} ({number})"
    return candidate


def _merge(tables: Sequence[Table], merging: Merging) -> Table:
    return join(tables, merging.column) if merging.column else concatenate(tables)


def _write(tables: Sequence[Table], format_: OutputFormat, allow_formulas: bool) -> dict[str, JsonValue]:
    written = tables[:1] if format_ == "csv" else tables
    if format_ == "csv":
        content = write_text(tables[0], allow_formulas=allow_formulas)
    else:
        content = write_book(tables, allow_formulas=allow_formulas)
    if len(content) > MAX_OUTPUT_BYTES:
        raise ServiceError(f"the new file of {len(content):,} bytes exceeds {MAX_OUTPUT_BYTES:,}")
    parts = [base64.b64encode(content[at : at + _PART_BYTES]).decode() for at in range(0, len(content), _PART_BYTES)]
    rows = sum(len(table.rows) for table in written)
    return {"parts": cast("JsonValue", parts), "sheets": max(1, len(written)), "rows": rows}


MERGED = "merged"


def concatenate(tables: Sequence[Table]) -> Table:
    """Return the rows of all tables below each other, with the columns of all. Missing cells are null."""
    columns = list(dict.fromkeys(name for table in tables for name in table.columns))
    check_cells(sum(len(table.rows) for table in tables) * (1 + len(columns)), "the merged table")
    rows: list[Row] = []
    for table in tables:
        positions = {name: index for index, name in enumerate(table.columns)}
        places = [positions.get(name) for name in columns]
        rows += [[None if place is None else row[place] for place in places] for row in table.rows]
    return Table(MERGED, "", columns, rows)


def join(tables: Sequence[Table], column: str) -> Table:
    """Join tables on a column, one after the other, as pandas does: an outer join, sorted by the column.

    Other columns with the same name get the suffixes ``_x`` and ``_y``.

    Raises:
        ServiceError: if a table lacks the column, or the result has too many cells.
    """
    for table in tables:
        if column not in table.columns:
            names = ", ".join(map(repr, table.columns[:10]))
            raise ServiceError(f"{table.place} has no column {column!r} to join on; it has {names or 'none'}")
    merged = tables[0]
    for table in tables[1:]:
        merged = _join_two(merged, table, column)
    return Table(MERGED, "", merged.columns, merged.rows)


def _join_two(first: Table, other: Table, column: str) -> Table:
    key, other_key = first.columns.index(column), other.columns.index(column)
    matching: dict[Hashable, list[tuple[Cell, Row]]] = {}
    for row in other.rows:
        rest = [cell for index, cell in enumerate(row) if index != other_key]
        matching.setdefault(_key(row[other_key]), []).append((row[other_key], rest))
    added = [name for name in other.columns if name != column]
    nothing: list[tuple[Cell, Row]] = [(None, [None] * len(added))]
    width = 1 + len(first.columns) + len(added)
    joined: list[Row] = []
    for row in first.rows:
        joined += [[*row, *rest] for _, rest in matching.get(_key(row[key]), nothing)]
        check_cells(len(joined) * width, other.place)
    found = {_key(row[key]) for row in first.rows}
    for value, rest in (match for each, matches in matching.items() if each not in found for match in matches):
        blank: list[Cell] = [None] * len(first.columns)
        blank[key] = value
        joined.append([*blank, *rest])
    check_cells(len(joined) * width, other.place)
    joined.sort(key=lambda row: _order(row[key]))
    shared = (set(first.columns) - {column}) & set(added)
    columns = [f"{name}_x" if name in shared else name for name in first.columns]
    return Table(first.file, "", columns + [f"{name}_y" if name in shared else name for name in added], joined)


def _key(value: Cell) -> Hashable:
    """Return what is compared. ``1`` is not ``true``, but the same as the text ``1``: CSV files have no types."""
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int | float) else cast("Hashable", value)


def _order(value: Cell) -> tuple[int, float, str]:
    """Sort numbers before texts, and nulls last."""
    if value is None:
        return 2, 0.0, ""
    if isinstance(value, int | float):
        return 0, float(value), ""
    return 1, 0.0, str(plain_cell(value))
