"""The operations on spreadsheets as worker tasks. Files arrive as bytes; new ones are returned as Base64 texts."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.spreadsheets.reading import SourceFile, open_tables
from ragflow_lg.base.spreadsheets.tables import (
    MAX_ENTRIES,
    Cell,
    CellCount,
    Row,
    Table,
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
"""Maximum duration of an operation. 100,000 rows with five columns take some twenty seconds if they are copied."""

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
    for name, tables in _by_file(reading, CellCount()):
        for table in tables:
            key = _unused(f"{name}_{table.sheet}" if len(tables) > 1 else name, data)
            rows, count = row_maps(table, reading.max_rows)
            data[key] = rows
            total += sum(1 + len(row) for row in rows)
            _check_total(table, total)
            names = ", ".join(table.columns[:_SHOWN_COLUMNS]) + ("..." if len(table.columns) > _SHOWN_COLUMNS else "")
            kept = f"; data contains the first {len(rows):,}" if len(rows) < count else ""
            summaries.append(f"**{key}**: {count} rows, {len(table.columns)} columns ({names}){kept}")
            sections.append(f"### {key}\n\n{markdown_of(table.columns, rows[:SHOWN_ROWS])}\n")
    return {
        "data": data,
        "summary": "\n".join(summaries) or "No Excel files found",
        "markdown": "\n\n".join(sections)[:_MAX_SHOWN_CHARS] or "No data",
    }


@worker_task("Merging the spreadsheets", seconds=SECONDS, small_size=0)
def merge_spreadsheets(reading: Reading, merging: Merging) -> dict[str, JsonValue]:
    """Return the rows of all sheets as one table: ``data``, ``summary`` and ``markdown``."""
    cells = CellCount()
    tables = _all_tables(reading, cells)
    if not tables:
        return {"data": {}, "summary": "No data to merge", "markdown": ""}
    merged = _merge(tables, merging, cells)
    rows, count = row_maps(merged, reading.max_rows)
    kept = f"; data contains the first {len(rows):,}" if len(rows) < count else ""
    return {
        "data": cast("JsonValue", {merged.file: rows}),
        "summary": f"Merged {len(tables)} sources into {count} rows, {len(merged.columns)} columns{kept}",
        "markdown": markdown_of(merged.columns, rows[:SHOWN_MERGED_ROWS])[:_MAX_SHOWN_CHARS],
    }


@worker_task("Writing the spreadsheet", seconds=SECONDS, small_size=0)
def convert_spreadsheets(
    reading: Reading, merging: Merging | None, format_: OutputFormat, allow_formulas: bool
) -> dict[str, JsonValue]:
    """Write the sheets of files to a new file, merged into one if ``merging`` is given. Rows stay in the worker."""
    cells = CellCount()
    tables = _all_tables(reading, cells)
    if not tables:
        raise ServiceError("the files have no sheets that are selected")
    return _write([_merge(tables, merging, cells)] if merging else tables, format_, allow_formulas)


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
        rows, _ = row_maps(table)
        shown.append({"rows": cast("JsonValue", rows), "markdown": markdown_of(table.columns, rows)})
    return shown


def _by_file(reading: Reading, cells: CellCount) -> Iterator[tuple[str, list[Table]]]:
    for name, content in reading.files:
        yield name, list(open_tables(SourceFile(name, content), reading.sheets, cells))


def _all_tables(reading: Reading, cells: CellCount) -> list[Table]:
    return [table for _, tables in _by_file(reading, cells) for table in tables]


def _unused(key: str, names: Mapping[str, Any]) -> str:
    """Return a key, numbered if another file has the same name."""
    number, candidate = 1, key
    while candidate in names:
        number += 1
        candidate = f"{key} ({number})"
    return candidate


def _check_total(table: Table, total: int) -> None:
    if total > MAX_ENTRIES:
        raise ServiceError(
            f"with {table.place}, the rows have more than {MAX_ENTRIES:,} entries, which is too much for an output; "
            "set max_rows, or write a file with the operation output"
        )


def _merge(tables: Sequence[Table], merging: Merging, cells: CellCount) -> Table:
    return join(tables, merging.column, cells) if merging.column else concatenate(tables)


def _write(tables: Iterable[Table], format_: OutputFormat, allow_formulas: bool) -> dict[str, JsonValue]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"output.{format_}"
        if format_ == "csv":
            first = next(iter(tables))
            sheets, rows = 1, write_text(path, first, CellCount(), allow_formulas=allow_formulas)
        else:
            sheets, rows = write_book(path, tables, CellCount(), allow_formulas=allow_formulas)
        if (size := path.stat().st_size) > MAX_OUTPUT_BYTES:
            raise ServiceError(f"the new file of {size:,} bytes exceeds {MAX_OUTPUT_BYTES:,}")
        content = path.read_bytes()
    parts = [base64.b64encode(content[at : at + _PART_BYTES]).decode() for at in range(0, len(content), _PART_BYTES)]
    return {"parts": cast("JsonValue", parts), "sheets": sheets, "rows": rows}


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
