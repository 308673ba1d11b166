"""The tables of a Markdown text as a workbook, as RAGFlow's Message writes it.

Every table that is written with pipes becomes a sheet; a line between dashes under its head is not needed. Cells are
data: a text that begins with ``=`` is not a formula. Source: RAGFlow's ``agent/component/message.py``, which drops
empty cells.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

MAX_NAME_CHARS = 31
"""Excel's maximum length of a sheet's name."""

MAX_CELL_CHARS = 32_767
"""Excel's maximum length of a text in a cell."""

MAX_COLUMNS = 16_384

_UNFIT = str.maketrans({"/": "_", "\\": "_", **dict.fromkeys("*?[]:", "")})
_SEPARATOR = re.compile(r"[\s|:-]*$")
_CELL_END = re.compile(r"(?<!\\)\|")
_LEADING_ZERO = re.compile(r"[+-]?0\d+$")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?$")
_WHOLE = re.compile(r"[+-]?\d+$")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?$|[+-]?\d+[eE][+-]?\d+$")
_MAX_DIGITS = 15


class Sheet(NamedTuple):
    """A sheet: its name, its head, and its rows."""

    name: str
    head: tuple[str, ...]
    rows: tuple[tuple[str | int | float, ...], ...]


def write_xlsx(text: str) -> bytes:
    """Return a workbook with the tables of a text, or without tables with the text in one cell."""
    import xlsxwriter

    buffer = io.BytesIO()
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    book: Any = xlsxwriter.Workbook(buffer, options)
    bold = book.add_format({"bold": True})
    for sheet in _with_unique_names(read_sheets(text)) or [Sheet("Data", ("Content",), ((text,),))]:
        page = book.add_worksheet(sheet.name)
        for at, value in enumerate(sheet.head[:MAX_COLUMNS]):
            page.write_string(0, at, value[:MAX_CELL_CHARS], bold)
        for number, row in enumerate(sheet.rows, 1):
            for at, value in enumerate(row[:MAX_COLUMNS]):
                if isinstance(value, str):
                    page.write_string(number, at, value[:MAX_CELL_CHARS])
                else:
                    page.write_number(number, at, value)
    book.close()
    return buffer.getvalue()


def read_sheets(text: str) -> list[Sheet]:
    """Return the tables with rows, in order. A title line before a table becomes its name."""
    sheets: list[Sheet] = []
    for title, lines in _tables(text.strip().split("\n")):
        head = _cells(lines[0])
        rows = [_fit([_value(cell) for cell in _cells(line)], len(head)) for line in lines[1:]]
        if head and rows:
            sheets.append(Sheet(title or f"Table_{len(sheets) + 1}", tuple(head), tuple(map(tuple, rows))))
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
    return [cell.strip().replace("\\|", "|") for cell in _CELL_END.split(inner)]


def _fit(row: Sequence[str | int | float], width: int) -> list[str | int | float]:
    return [*row[:width], *[""] * (width - len(row))]


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
    if _DECIMAL.match(number):
        value = float(number)
        return value if abs(value) < 1e300 else cell
    return cell


def _with_unique_names(sheets: Sequence[Sheet]) -> list[Sheet]:
    used: set[str] = set()
    named: list[Sheet] = []
    for sheet in sheets:
        base = sheet.name[:MAX_NAME_CHARS].translate(_UNFIT).strip("' ") or "Table"
        name, number = base, 1
        while name.lower() in used or name.lower() == "history":
            suffix = f"_{number}"
            name, number = base[: MAX_NAME_CHARS - len(suffix)] + suffix, number + 1
        used.add(name.lower())
        named.append(sheet._replace(name=name))
    return named
