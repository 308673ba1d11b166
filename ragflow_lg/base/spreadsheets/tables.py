"""Tables: named columns and rows that are read only once, and limits on their total size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import TypeAlias, cast

from msgspec import Struct

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.markdown_table import format_cells
from ragflow_lg.base.values import JsonValue

Cell: TypeAlias = "JsonValue | date | datetime | time | timedelta"
"""The value of a cell. Files have numbers, texts, truth values and times; values of a canvas are JSON."""

Row: TypeAlias = Sequence[Cell]

MAX_CELLS = 10_000_000
"""Maximum number of cells that one node reads or writes, empty ones included."""

MAX_ENTRIES = 90_000
"""Maximum number of rows and cells in a node's output ``data``; a node's outputs hold 100,000 entries in total."""

MAX_COLUMNS = 16_384
"""Excel's maximum number of columns."""


class Table(Struct):
    """A table of a file or of a value. ``rows`` can be iterated once; each row has one cell per column."""

    file: str
    sheet: str
    columns: list[str]
    rows: Iterator[Row]

    @property
    def place(self) -> str:
        """The name of the table in error messages."""
        return f"the sheet {self.sheet!r} of {self.file!r}" if self.sheet else repr(self.file)


class CellCount:
    """Counts the cells that a node has read or written."""

    def __init__(self, limit: int = MAX_CELLS) -> None:
        self._limit = limit
        self._count = 0

    def add(self, cells: int, place: str, row: int) -> None:
        """Count the cells of a row.

        Raises:
            ServiceError: if there are too many in total.
        """
        self._count += 1 + cells
        if self._count > self._limit:
            raise ServiceError(
                f"{place}, row {row}: there are more than {self._limit:,} cells in total; split the file"
            )


def unique_columns(header: Sequence[Cell], width: int) -> list[str]:
    """Return a name for each column, as pandas does: blank ones are numbered, and so are repeated ones.

    >>> unique_columns(["a", None, "a"], 4)
    ['a', 'Unnamed: 1', 'a.1', 'Unnamed: 3']
    """
    names: dict[str, None] = {}
    counts: dict[str, int] = {}
    for index in range(width):
        value = plain_cell(header[index]) if index < len(header) else None
        base = f"Unnamed: {index}" if value is None or value == "" else str(value)
        name = base
        while name in names:
            counts[base] = counts.get(base, 0) + 1
            name = f"{base}.{counts[base]}"
        names[name] = None
    return list(names)


def plain_cell(value: Cell) -> JsonValue:
    """Return a cell as JSON. Times become text, as in pandas.

    >>> plain_cell(datetime(2026, 1, 2)), plain_cell(5)
    ('2026-01-02 00:00:00', 5)
    """
    return str(value) if isinstance(value, date | time | timedelta) else value


def row_maps(table: Table, limit: int | None = None) -> tuple[list[dict[str, JsonValue]], int]:
    """Return the first ``limit`` rows as maps, and the number of all rows.

    Raises:
        ServiceError: if they have too many entries for an output.
    """
    maps: list[dict[str, JsonValue]] = []
    count = 0
    entries = 0
    for row in table.rows:
        count += 1
        if limit is not None and count > limit:
            continue
        entries += 1 + len(table.columns)
        if entries > MAX_ENTRIES:
            raise ServiceError(
                f"{table.place}, row {count + 1}: the rows have more than {MAX_ENTRIES:,} entries, "
                "which is too much for an output; set max_rows, or write a file with the operation output"
            )
        maps.append({name: plain_cell(cell) for name, cell in zip(table.columns, row, strict=True)})
    return maps, count


def table_of(name: str, value: JsonValue) -> Table:
    """Return a value as a table: a list of maps, of lists or of plain values, or a map, which is one row."""
    entries = cast("list[JsonValue]", value if isinstance(value, list) else [value])
    columns: dict[str, None] = {}
    for entry in entries:
        columns.update(dict.fromkeys(_keys(entry)))
    names = list(columns)
    return Table(name, "", names, ([_field(entry, column) for column in names] for entry in entries))


def _keys(entry: JsonValue) -> Sequence[str]:
    if isinstance(entry, Mapping):
        return list(entry)
    return [str(index) for index in range(len(entry))] if isinstance(entry, list) else ["0"]


def _field(entry: JsonValue, column: str) -> JsonValue:
    if isinstance(entry, Mapping):
        return entry.get(column)
    if isinstance(entry, list):
        return entry[int(column)] if column.isdigit() and int(column) < len(entry) else None
    return entry if column == "0" else None


def markdown_of(columns: Sequence[str], rows: Sequence[Mapping[str, JsonValue]]) -> str:
    r"""Return rows as a Markdown table; ``""`` without columns.

    >>> print(markdown_of(["a"], [{"a": "x|y"}]))
    | a |
    | --- |
    | x\|y |
    """
    if not columns:
        return ""
    lines: list[Sequence[JsonValue]] = [columns, ["---"] * len(columns)]
    lines += [[row.get(name) for name in columns] for row in rows]
    return "\n".join(map(format_cells, lines))
