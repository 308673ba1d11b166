"""New XLSX and CSV files. Texts stay texts: none becomes a formula or a link, unless formulas are allowed."""

from __future__ import annotations

import csv
import importlib
import json
import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.extras import install_command
from ragflow_lg.base.spreadsheets.reading import MAX_ROWS, cell_name
from ragflow_lg.base.spreadsheets.tables import MAX_COLUMNS, Cell, CellCount, Table, plain_cell
from ragflow_lg.base.values import join_surrogates

MAX_CELL_CHARS = 32_767
"""Excel's maximum length of a text."""

MAX_EXACT = 2**53
"""Larger whole numbers would lose digits in Excel, and are written as text."""

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_NUMBER = re.compile(r"[+-]?\d{1,15}([.,]\d{1,15})?", re.ASCII)
_UNFIT_IN_TITLE = re.compile(r"[\[\]:*?/\\\x00-\x1f]")
_MAX_TITLE_CHARS = 31


def write_book(path: Path, tables: Iterable[Table], count: CellCount, *, allow_formulas: bool) -> tuple[int, int]:
    """Write an XLSX file with a sheet per table, row by row. Return the numbers of sheets and rows.

    Raises:
        ServiceError: if a cell or a sheet does not fit into a file; the message names it.
    """
    options = {
        "constant_memory": True,
        "strings_to_formulas": False,
        "strings_to_numbers": False,
        "strings_to_urls": False,
        "nan_inf_to_errors": True,
        "tmpdir": str(path.parent),
    }
    book: Any = _import_xlsxwriter().Workbook(str(path), options)
    try:
        return _write_sheets(book, tables, count, allow_formulas)
    finally:
        book.close()


def _import_xlsxwriter() -> Any:
    try:
        return importlib.import_module("xlsxwriter")
    except ImportError:
        raise ServiceError(f"xlsxwriter is not installed: {install_command('spreadsheets')}") from None


def _write_sheets(book: Any, tables: Iterable[Table], count: CellCount, allow_formulas: bool) -> tuple[int, int]:
    formats = {
        datetime: book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"}),
        date: book.add_format({"num_format": "yyyy-mm-dd"}),
        time: book.add_format({"num_format": "hh:mm:ss"}),
        timedelta: book.add_format({"num_format": "[h]:mm:ss"}),
    }
    titles: set[str] = set()
    row_count = 0
    for table in tables:
        title = sheet_title(table.sheet or table.file, titles)
        sheet = book.add_worksheet(title)
        number = 0
        for number, row in enumerate(_with_header(table), 1):
            count.add(len(row), f"the new sheet {title!r}", number)
            _check_size(title, number, len(row))
            for column, value in enumerate(row):
                _write_cell(sheet, title, number - 1, column, value, formats, allow_formulas)
        row_count += max(0, number - 1)
    if not titles:
        book.add_worksheet("Sheet1")
    return len(titles), row_count


def _with_header(table: Table) -> Iterable[Sequence[Cell]]:
    yield table.columns
    yield from table.rows


def _check_size(title: str, rows: int, columns: int) -> None:
    if rows > MAX_ROWS or columns > MAX_COLUMNS:
        raise ServiceError(
            f"the new sheet {title!r} has more than {MAX_ROWS:,} rows or {MAX_COLUMNS:,} columns; split it"
        )


def _write_cell(
    sheet: Any, title: str, row: int, column: int, value: Cell, formats: dict[Any, Any], allow_formulas: bool
) -> None:
    if value is None:
        return
    if isinstance(value, bool):
        sheet.write_boolean(row, column, value)
    elif isinstance(value, int | float) and abs(value) <= MAX_EXACT:
        sheet.write_number(row, column, value)
    elif isinstance(value, date | time | timedelta):
        sheet.write_datetime(row, column, value, formats[type(value)])
    else:
        text = _text(value)
        if len(text) > MAX_CELL_CHARS:
            name = cell_name(row + 1, column + 1)
            raise ServiceError(
                f"the new sheet {title!r}, cell {name}: a text of {len(text):,} characters exceeds Excel's "
                f"{MAX_CELL_CHARS:,}; shorten it, or write a CSV file"
            )
        if allow_formulas and text.startswith("="):
            sheet.write_formula(row, column, text)
        else:
            sheet.write_string(row, column, text)


def _text(value: Cell) -> str:
    plain = plain_cell(value)
    return join_surrogates(json.dumps(plain, ensure_ascii=False) if isinstance(plain, list | dict) else str(plain))


def sheet_title(name: str, used: set[str]) -> str:
    """Return a title for a sheet that Excel accepts, and that no other sheet has; add it to ``used``.

    >>> sheet_title("a/b", {"a_b"})
    'a_b_1'
    """
    base = _UNFIT_IN_TITLE.sub("_", join_surrogates(name))[:_MAX_TITLE_CHARS].strip("'").strip() or "Sheet"
    base = f"{base}_" if base.lower() == "history" else base  # reserved by Excel
    title, number = base, 0
    while title.lower() in used:
        number += 1
        title = f"{base[: _MAX_TITLE_CHARS - 1 - len(str(number))]}_{number}"
    used.add(title.lower())
    return title


def write_text(path: Path, table: Table, count: CellCount, *, allow_formulas: bool) -> int:
    """Write a CSV file in UTF-8, row by row. Return the number of rows."""
    number = 0
    with path.open("w", encoding="utf-8", errors="replace", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        for number, row in enumerate(_with_header(table), 1):
            count.add(len(row), "the new file", number)
            writer.writerow([_csv_cell(value, allow_formulas) for value in row])
    return max(0, number - 1)


def _csv_cell(value: Cell, allow_formulas: bool) -> str:
    """Return a cell as text. An apostrophe before a text that a program would read as a formula keeps it a text."""
    if value is None:
        return ""
    text = _text(value)
    is_risky = isinstance(value, str | list | dict) and text.startswith(_FORMULA_STARTS) and not _NUMBER.fullmatch(text)
    return f"'{text}" if is_risky and not allow_formulas else text
