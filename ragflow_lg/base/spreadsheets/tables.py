"""Tables: named columns and rows, and limits on their size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import TypeAlias, cast

from msgspec import Struct

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.markdown_table import format_cells
from ragflow_lg.base.values import JsonValue

Cell: TypeAlias = "JsonValue | date | datetime | time | timedelta"
"""The value of a cell. Files have numbers, texts, truth values and times; values of a canvas are JSON."""

Row: TypeAlias = Sequence[Cell]

MAX_CELLS = 3_000_000
"""Maximum number of rows and cells that one node reads, joins or writes, empty ones included."""

MAX_ENTRIES = 90_000
"""Maximum number of rows and cells in a node's output ``data``; a node's outputs hold 100,000 entries in total."""


class Table(Struct):
    """A table of a file or of a value. Each row has one cell per column."""

    file: str
    sheet: str
    columns: list[str]
    rows: Sequence[Row]

    @property
    def place(self) -> str:
        """The name of the table in error messages."""
        return f"the sheet {self.sheet!r} of {self.file!r}" if self.sheet else repr(self.file)


def check_cells(count: int, place: str) -> None:
    """Check a number of rows and cells.

    Raises:
        ServiceError: if there are too many.
    """
    if count > MAX_CELLS:
        raise ServiceError(f"{place}: there are more than {MAX_CELLS:,} cells in total; split the file")


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


def row_maps(table: Table, limit: int | None = None) -> list[dict[str, JsonValue]]:
    """Return the first ``limit`` rows as maps.

    Raises:
        ServiceError: if they have too many entries for an output.
    """
    rows = table.rows[:limit]
    check_entries(len(rows) * (1 + len(table.columns)), table)
    return [{name: plain_cell(cell) for name, cell in zip(table.columns, row, strict=True)} for row in rows]


def check_entries(count: int, table: Table) -> None:
    """Check the number of rows and cells in an output, the last of which are those of a table.

    Raises:
        ServiceError: if there are too many.
    """
    if count > MAX_ENTRIES:
        raise ServiceError(
            f"with {table.place}, the rows have more than {MAX_ENTRIES:,} entries, which is too much for an output; "
            "set max_rows, or write a file with the operation output"
        )


def table_of(name: str, value: JsonValue) -> Table:
    """Return a value as a table: a list of maps, of lists or of plain values, or a map, which is one row."""
    entries = [_fields(entry) for entry in cast("list[JsonValue]", value if isinstance(value, list) else [value])]
    columns = list(dict.fromkeys(name for entry in entries for name in entry))
    check_cells(len(entries) * (1 + len(columns)), repr(name))
    return Table(name, "", columns, [[entry.get(column) for column in columns] for entry in entries])


def _fields(entry: JsonValue) -> Mapping[str, JsonValue]:
    if isinstance(entry, Mapping):
        return entry
    values = entry if isinstance(entry, list) else [entry]
    return {str(index): value for index, value in enumerate(values)}


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
