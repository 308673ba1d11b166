"""New XLSX and CSV files. Texts stay texts: none becomes a formula or a link, unless formulas are allowed."""

from __future__ import annotations

import csv
import importlib
import io
import json
import re
from collections.abc import Sequence
from datetime import date, time, timedelta
from typing import Any

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.extras import require
from ragflow_lg.base.spreadsheets.tables import Cell, Table, plain_cell
from ragflow_lg.base.values import join_surrogates

MAX_CELL_CHARS = 32_767
"""Excel's maximum length of a text."""

MAX_ROWS = 1_048_576
MAX_COLUMNS = 16_384

MAX_EXACT = 2**53
"""Larger whole numbers would lose digits in Excel, and are written as text."""

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_NUMBER = re.compile(r"[+-]?\d{1,15}([.,]\d{1,15})?", re.ASCII)
_UNFIT_IN_TITLE = re.compile(r"[\[\]:*?/\\\x00-\x1f]")
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
"""What XML cannot contain."""

_MAX_TITLE_CHARS = 31


def write_book(tables: Sequence[Table], *, allow_formulas: bool = False) -> bytes:
    """Return an XLSX file with a sheet per table.

    Raises:
        ServiceError: if a cell or a sheet does not fit into a file; the message names it.
    """
    require("spreadsheets", "Writing XLSX files", ServiceError)
    library: Any = importlib.import_module("openpyxl")
    book = library.Workbook(write_only=True)
    titles: set[str] = set()
    for table in tables:
        title = sheet_title(table.sheet or table.file, titles)
        if len(table.rows) >= MAX_ROWS or len(table.columns) > MAX_COLUMNS:
            raise ServiceError(
                f"the new sheet {title!r} has more than {MAX_ROWS:,} rows or {MAX_COLUMNS:,} columns; split it"
            )
        sheet = book.create_sheet(title)
        for number, row in enumerate((table.columns, *table.rows), 1):
            sheet.append(
                [_cell(sheet, value, (title, number, column), allow_formulas) for column, value in enumerate(row, 1)]
            )
    if not tables:
        book.create_sheet("Sheet1")
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def _cell(sheet: Any, value: Cell, place: tuple[str, int, int], allow_formulas: bool) -> Any:
    """Return what openpyxl appends: a plain value, or a cell that is a text even if it begins with ``=``."""
    is_exact = isinstance(value, int | float) and abs(value) <= MAX_EXACT
    if value is None or is_exact or isinstance(value, date | time | timedelta):
        return value
    text = _UNFIT.sub("", _text(value))
    if len(text) > MAX_CELL_CHARS:
        title, row, column = place
        letter = importlib.import_module("openpyxl.utils").get_column_letter(column)
        raise ServiceError(
            f"the new sheet {title!r}, cell {letter}{row}: a text of {len(text):,} characters exceeds Excel's "
            f"{MAX_CELL_CHARS:,}; shorten it, or write a CSV file"
        )
    cell = importlib.import_module("openpyxl.cell").WriteOnlyCell(sheet, value=text)
    if not allow_formulas or not text.startswith("="):
        cell.data_type = "s"
    return cell


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


def write_text(table: Table, *, allow_formulas: bool) -> bytes:
    """Return a CSV file in UTF-8."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    for row in (table.columns, *table.rows):
        writer.writerow([_csv_cell(value, allow_formulas) for value in row])
    return file.getvalue().encode("utf-8", "replace")


def _csv_cell(value: Cell, allow_formulas: bool) -> str:
    """Return a cell as text. An apostrophe before a text that a program would read as a formula keeps it a text."""
    if value is None:
        return ""
    text = _text(value)
    is_risky = isinstance(value, str | list | dict) and text.startswith(_FORMULA_STARTS) and not _NUMBER.fullmatch(text)
    return f"'{text}" if is_risky and not allow_formulas else text
