"""The tables of a Markdown text as a workbook, as RAGFlow's Message writes it.

Every table that is written with pipes becomes a sheet; a line between dashes under its head is not needed. Cells are
data: a text that begins with ``=`` is not a formula. Source: RAGFlow's ``agent/component/message.py``, which drops
empty cells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ragflow_lg.base.spreadsheets.tables import Table
from ragflow_lg.base.spreadsheets.writing import MAX_CELL_CHARS, MAX_COLUMNS, write_book

_REMOVED = str.maketrans(dict.fromkeys("*?[]:", ""))
_SEPARATOR = re.compile(r"[\s|:-]*$")
_CELL_END = re.compile(r"(?<!\\)\|")
_LEADING_ZERO = re.compile(r"[+-]?0\d+$")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?$")
_WHOLE = re.compile(r"[+-]?\d+$")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?$|[+-]?\d+[eE][+-]?\d+$")
_MAX_DIGITS = 15


def write_xlsx(text: str) -> bytes:
    """Return a workbook with the tables of a text, or without tables with the text in one cell."""
    return write_book(read_sheets(text) or [Table("Data", "", ["Content"], [[text[:MAX_CELL_CHARS]]])])


def read_sheets(text: str) -> list[Table]:
    """Return the tables with rows, in order. A title line before a table becomes its name."""
    sheets: list[Table] = []
    for title, lines in _tables(text.strip().split("\n")):
        head, *rows = [_cells(line) for line in lines]
        if rows:
            fitted = [[*map(_value, row[: len(head)]), *[""] * (len(head) - len(row))] for row in rows]
            sheets.append(Table(title.translate(_REMOVED) or f"Table_{len(sheets) + 1}", "", head, fitted))
    return sheets


def _tables(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    title, table = "", list[str]()
    for line in (*map(str.strip, lines), ""):
        if line.startswith("|") and "|" in line[1:]:
            if not _SEPARATOR.match(line):
                table.append(line)
            continue
        if table:
            yield title, table
            title, table = "", []
        if line.startswith("#") or line.lower().startswith("table") or ":" in line:
            title = line.lstrip("#").strip()


def _cells(line: str) -> list[str]:
    inner = line[1:-1] if line.endswith("|") and not line.endswith("\\|") else line[1:]
    cells = _CELL_END.split(inner)[:MAX_COLUMNS]
    return [cell.strip().replace("\\|", "|")[:MAX_CELL_CHARS] for cell in cells]


def _value(cell: str) -> str | int | float:
    """Return a number if a cell is one that Excel represents exactly, otherwise its text.

    >>> _value("1,234.5"), _value("007"), _value("12"), _value("=1+1")
    (1234.5, '007', 12, '=1+1')
    """
    number = cell.replace(",", "") if _THOUSANDS.match(cell) else cell
    if _LEADING_ZERO.match(cell) or len(number) > _MAX_DIGITS:
        return cell
    if _WHOLE.match(number):
        return int(number)
    value = float(number) if _DECIMAL.match(number) else 1e300
    return value if abs(value) < 1e300 else cell
