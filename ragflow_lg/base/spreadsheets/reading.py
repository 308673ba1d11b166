"""Tables of XLSX and CSV files. The first row contains the names of the columns; blank rows are skipped."""

from __future__ import annotations

import csv
import importlib
import io
import re
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.extras import require
from ragflow_lg.base.spreadsheets.tables import Cell, Row, Table, check_cells, unique_columns

MAX_SHEETS = 200

MAX_FIELD_CHARS = 131_072
"""Maximum length of a cell of a CSV file. Python's own limit is the same, but any library can change it."""

_DELIMITERS = {".csv": "", ".tsv": "\t"}
_BOOK_SUFFIXES = frozenset({".xlsx", ".xlsm"})
_ERROR_VALUES = frozenset({"#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!"})
"""Results of formulas that have failed, which are read as null."""

_WHOLE = re.compile(r"-?(0|[1-9]\d{0,14})", re.ASCII)
_DECIMAL = re.compile(r"-?(?=\.?\d)(0|[1-9]\d{0,14})?(\.\d{0,20})?([eE][+-]\d{1,3})?", re.ASCII)
"""Programs write ``1E+05``; ``1E5`` is a code, and ``+49`` a telephone number."""

_OLE = bytes.fromhex("d0cf11e0a1b11ae1")
"""The beginning of files of older Office programs, and of encrypted ones of today."""


def read_tables(name: str, content: bytes, selection: str, count: int = 0) -> list[Table]:
    """Return the tables of a file: its selected sheets, or its only table if it is a CSV file.

    ``selection`` is ``all``, ``first``, or names of sheets, separated by commas; unknown names are ignored. ``count``
    is the number of rows and cells that have been read before.

    Raises:
        ServiceError: if the file cannot be read, or is too large.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix in _DELIMITERS:
        return [_read_text(name, content, _DELIMITERS[suffix], count)]
    if suffix in _BOOK_SUFFIXES or zipfile.is_zipfile(io.BytesIO(content)):
        return _read_book(name, content, selection, count)
    raise ServiceError(f"{name!r} is not an XLSX or CSV file; save it as one")


def _read_book(name: str, content: bytes, selection: str, count: int) -> list[Table]:
    require("spreadsheets", "Reading XLSX files", ServiceError)
    library: Any = importlib.import_module("openpyxl")
    place = f"{name!r} cannot be read"
    if content.startswith(_OLE):
        raise ServiceError(f"{place}: it has a password or is an XLS file; save it as XLSX without a password")
    try:
        check_unpacked_size(content)
        book: Any = library.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    except (MemoryError, ServiceError) as error:
        raise ServiceError(f"{place}: {error}") if isinstance(error, ServiceError) else error from None
    except Exception as error:  # the library raises anything for damaged files
        raise _damaged(place, error) from error
    sheets: list[Any] = list(book.worksheets)
    if len(sheets) > MAX_SHEETS:
        raise ServiceError(f"{name!r} has {len(sheets):,} sheets, more than {MAX_SHEETS}")
    tables: list[Table] = []
    for sheet in _select(sheets, selection):
        tables.append(_table(name, str(sheet.title), sheet.iter_rows(values_only=True), count))
        count += len(tables[-1].rows) * (1 + len(tables[-1].columns))
    return tables


def _select(sheets: Sequence[Any], selection: str) -> Sequence[Any]:
    if selection.strip().lower() in ("", "all"):
        return sheets
    if selection.strip().lower() == "first":
        return sheets[:1]
    by_name = {str(sheet.title): sheet for sheet in sheets}
    names = dict.fromkeys(name.strip() for name in selection.split(","))
    return [by_name[name] for name in names if name in by_name]


def _damaged(place: str, error: Exception) -> ServiceError:
    what = "it is not valid CSV" if isinstance(error, csv.Error) else "it is damaged or not of this type"
    why = " ".join(f"{type(error).__name__}: {error}".split())[:200].removesuffix(":")
    return ServiceError(f"{place}: {what}: {why}")


def _table(file: str, sheet: str, source: Iterable[Row], count: int) -> Table:
    """Return the table of rows, the first of which contains the names of the columns."""
    table = Table(file, sheet, [], [])
    rows: list[Row] = []
    number = 0
    try:
        for number, row in enumerate(source, 1):
            count += 1 + len(row)
            check_cells(count, f"{table.place}, row {number}")
            cells = [None if _is_null(cell) else cell for cell in row]
            if any(cell is not None for cell in cells):
                rows.append(cells)
    except (MemoryError, ServiceError):
        raise
    except Exception as error:  # the library raises anything for damaged files
        raise _damaged(f"{table.place}, row {number + 1}", error) from error
    width = max(map(_width, rows), default=0)
    check_cells(len(rows) * (1 + width), table.place)
    fitted = [[*row[:width], *[None] * (width - len(row))] for row in rows]
    table.columns = unique_columns(fitted[0] if fitted else (), width)
    table.rows = fitted[1:]
    return table


def _is_null(cell: Cell) -> bool:
    return isinstance(cell, str) and (not cell.strip() or cell in _ERROR_VALUES)


def _width(row: Row) -> int:
    return next((index for index in range(len(row), 0, -1) if row[index - 1] is not None), 0)


def _read_text(name: str, content: bytes, delimiter: str, count: int) -> Table:
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        raise ServiceError(f"{name!r} is not UTF-8 text (byte {error.start:,}); save it as UTF-8") from None
    if not delimiter:  # some editions of Excel write semicolons
        line = text.lstrip()[:10_000].partition("\n")[0]
        delimiter = next((mark for mark in (",", ";", "\t") if mark in line), ",")
    table = _table(name, "", _csv_rows(text, delimiter), count)
    columns = [_typed(column) for column in zip(*table.rows, strict=True)]
    table.rows = list(zip(*columns, strict=True))
    return table


def _csv_rows(text: str, delimiter: str) -> Iterable[Row]:
    for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
        if any(len(cell) > MAX_FIELD_CHARS for cell in row):
            raise csv.Error(f"a cell has more than {MAX_FIELD_CHARS:,} characters")
        yield row


def _typed(column: Row) -> Row:
    """Return a column of texts, as numbers if all of them are numbers."""
    texts = [cell for cell in column if isinstance(cell, str)]
    for pattern, kind in ((_WHOLE, int), (_DECIMAL, float)):
        if all(map(pattern.fullmatch, texts)):
            return [kind(cell) if isinstance(cell, str) else None for cell in column]
    return column


MAX_UNPACKED_BYTES = 512 * 1024 * 1024
"""Maximum total size of the decompressed parts of a file."""

MAX_TREE_BYTES = 64 * 1024 * 1024
"""Maximum size of a part that is parsed as a tree, which takes about twenty times its size in memory."""

_STREAMED_PARTS = ("xl/worksheets/", "xl/sharedStrings.xml")


def check_unpacked_size(content: bytes) -> None:
    """Check the sizes that the parts of a file declare. Python's ``zipfile`` never reads more than those.

    Raises:
        ServiceError: if a part, or all of them together, are too large.
        zipfile.BadZipFile: if this is not a ZIP archive.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = archive.infolist()
    size = sum(part.file_size for part in parts)
    if size > MAX_UNPACKED_BYTES:
        raise ServiceError(f"its decompressed size of {size:,} bytes exceeds {MAX_UNPACKED_BYTES:,}")
    for part in parts:
        is_tree = part.filename.lower().endswith((".xml", ".rels")) and not part.filename.startswith(_STREAMED_PARTS)
        if is_tree and part.file_size > MAX_TREE_BYTES:
            raise ServiceError(f"the decompressed size of a part, {part.file_size:,} bytes, exceeds {MAX_TREE_BYTES:,}")
