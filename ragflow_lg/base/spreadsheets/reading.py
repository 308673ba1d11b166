"""Tables of XLSX and CSV files. The first row contains the names of the columns; blank rows are skipped."""

from __future__ import annotations

import csv
import importlib
import io
import re
import zipfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import PurePath
from typing import Any, NamedTuple

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.extras import install_command
from ragflow_lg.base.spreadsheets.tables import MAX_COLUMNS, Cell, CellCount, Row, Table, unique_columns
from ragflow_lg.base.zip_size import check_unpacked_size

MAX_SHEETS = 200
MAX_ROWS = 1_048_576
"""Excel's maximum number of rows; a file may claim more."""

MAX_FIELD_CHARS = 131_072
"""Maximum length of a cell of a CSV file. Python's own limit is the same, but any library can change it."""

PEEKED_ROWS = 1_000
"""How many rows of a sheet are read to find out how many columns it has."""

_TEXT_SUFFIXES = frozenset({".csv", ".tsv"})
_BOOK_SUFFIXES = frozenset({".xlsx", ".xlsm"})
_ERROR_VALUES = frozenset({"#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!"})
"""Results of formulas that have failed, which are read as null."""

_WHOLE = re.compile(r"-?(0|[1-9]\d{0,14})", re.ASCII)
_DECIMAL = re.compile(r"-?(0|[1-9]\d{0,14})?(\.\d{0,20})?([eE][+-]\d{1,3})?", re.ASCII)
"""Programs write ``1E+05``; ``1E5`` is a code, and ``+49`` a telephone number."""

_OLE = bytes.fromhex("d0cf11e0a1b11ae1")
"""The beginning of files of older Office programs, and of encrypted ones of today."""


class SourceFile(NamedTuple):
    """A file, named as its user knows it."""

    name: str
    content: bytes


def open_tables(file: SourceFile, selection: str, count: CellCount) -> Iterator[Table]:
    """Yield the tables of a file: its selected sheets, or its only table if it is a CSV file.

    ``selection`` is ``all``, ``first``, or names of sheets, separated by commas; unknown names are ignored.

    Raises:
        ServiceError: if the file cannot be read, or is too large.
    """
    suffix = PurePath(file.name).suffix.lower()
    if suffix in _TEXT_SUFFIXES:
        yield _text_table(file, suffix, count)
    elif suffix in _BOOK_SUFFIXES or zipfile.is_zipfile(io.BytesIO(file.content)):
        yield from _book_tables(file, selection, count)
    else:
        raise ServiceError(f"{file.name!r} is not an XLSX or CSV file; save it as one")


def _book_tables(file: SourceFile, selection: str, count: CellCount) -> Iterator[Table]:
    library: Any = _import_openpyxl()
    with _converting_errors(f"{file.name!r} cannot be read", _describe):
        if file.content.startswith(_OLE):
            raise ServiceError("it has a password or is an XLS file; save it as XLSX without a password")
        check_unpacked_size(file.content)
        book: Any = library.load_workbook(io.BytesIO(file.content), read_only=True, data_only=True)
    sheets: list[Any] = list(book.worksheets)
    if len(sheets) > MAX_SHEETS:
        raise ServiceError(f"{file.name!r} has {len(sheets):,} sheets, more than {MAX_SHEETS}")
    for sheet in _select(sheets, selection):
        place = f"the sheet {sheet.title!r} of {file.name!r}"
        rows = _checked_rows(sheet.iter_rows(values_only=True), place, count, _describe)
        yield _table(file.name, str(sheet.title), place, rows)


def _import_openpyxl() -> Any:
    try:
        return importlib.import_module("openpyxl")
    except ImportError:
        raise ServiceError(f"openpyxl is not installed: {install_command('spreadsheets')}") from None


def _select(sheets: Sequence[Any], selection: str) -> Sequence[Any]:
    if selection.strip().lower() in ("", "all"):
        return sheets
    if selection.strip().lower() == "first":
        return sheets[:1]
    by_name = {str(sheet.title): sheet for sheet in sheets}
    names = dict.fromkeys(name.strip() for name in selection.split(","))
    return [by_name[name] for name in names if name in by_name]


def _describe(error: Exception) -> str:
    why = " ".join(str(error).split())[:200]
    return f"it is damaged or not of this type: {type(error).__name__}{': ' if why else ''}{why}"


@contextmanager
def _converting_errors(place: str, describe: Callable[[Exception], str]) -> Generator[None]:
    """Convert exceptions to a ServiceError with the place. The library raises anything for damaged files."""
    try:
        yield
    except MemoryError:
        raise  # a worker process reports what it has used up
    except ServiceError as error:
        raise ServiceError(f"{place}: {error}") from None
    except Exception as error:
        raise ServiceError(f"{place}: {describe(error)}") from error


def _checked_rows(
    rows: Iterable[Row], place: str, count: CellCount, describe: Callable[[Exception], str]
) -> Iterator[tuple[int, Row]]:
    """Yield the rows that are not blank with their numbers. Errors name the place."""
    iterator = iter(rows)
    for number in range(1, MAX_ROWS + 1):
        with _converting_errors(f"{place}, row {number}", describe):
            row = next(iterator, None)
        if row is None:
            return
        count.add(len(row), place, number)
        cells = [None if _is_null(cell) else cell for cell in row]
        if any(cell is not None for cell in cells):
            yield number, cells
    if next(iterator, None) is not None:
        raise ServiceError(f"{place} has more than {MAX_ROWS:,} rows; split it")


def _is_null(cell: Cell) -> bool:
    return isinstance(cell, str) and (not cell.strip() or cell in _ERROR_VALUES)


def _table(file: str, sheet: str, place: str, rows: Iterator[tuple[int, Row]]) -> Table:
    """Return the table of numbered rows, the first of which contains the names of the columns."""
    first = list(islice(rows, PEEKED_ROWS))
    width = max((_width(row) for _, row in first), default=0)
    if width > MAX_COLUMNS:
        raise ServiceError(f"{place} has {width:,} columns, more than {MAX_COLUMNS:,}")
    columns = unique_columns(first[0][1] if first else (), width)
    return Table(file, sheet, columns, _fitted(chain(first[1:], rows), width, place))


def _width(row: Row) -> int:
    return next((index for index in range(len(row), 0, -1) if row[index - 1] is not None), 0)


def _fitted(rows: Iterator[tuple[int, Row]], width: int, place: str) -> Iterator[Row]:
    for number, row in rows:
        if len(row) > width and (end := _width(row)) > width:
            raise ServiceError(
                f"{place}, cell {cell_name(number, end)}: the column has no name, and no value in the first "
                f"{PEEKED_ROWS:,} rows; name it in the first row"
            )
        yield [*row[:width], *[None] * (width - len(row))]


def cell_name(row: int, column: int) -> str:
    """Return the name of a cell from numbers that start at 1.

    >>> cell_name(1, 1), cell_name(7, 28)
    ('A1', 'AB7')
    """
    letters = ""
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return f"{letters}{row}"


# CSV


def _text_table(file: SourceFile, suffix: str, count: CellCount) -> Table:
    text = _decode(file)
    place = repr(file.name)
    delimiter = _delimiter(text, suffix)
    sample = _checked_rows(_csv_rows(text, delimiter), place, CellCount(), _describe_csv)
    next(sample, None)  # the names of the columns
    readers = _column_readers(row for _, row in sample)
    rows = _checked_rows(_csv_rows(text, delimiter), place, count, _describe_csv)
    typed = ((number, row if number == 1 else _read_cells(row, readers)) for number, row in _renumbered(rows))
    return _table(file.name, "", place, typed)


def _renumbered(rows: Iterator[tuple[int, Row]]) -> Iterator[tuple[int, Row]]:
    """Yield the rows; the first one that is not blank, which contains the names, has the number 1."""
    for index, (number, row) in enumerate(rows):
        yield (1 if index == 0 else max(number, 2)), row


def _decode(file: SourceFile) -> str:
    encoding = "utf-16" if file.content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return file.content.decode(encoding)
    except UnicodeDecodeError as error:
        raise ServiceError(f"{file.name!r} is not UTF-8 text (byte {error.start:,}); save it as UTF-8") from None


def _delimiter(text: str, suffix: str) -> str:
    """Return what separates the cells. Some editions of Excel write semicolons."""
    if suffix == ".tsv":
        return "\t"
    line = text.lstrip()[:10_000].partition("\n")[0]
    return "," if "," in line else next((mark for mark in (";", "\t") if mark in line), ",")


def _csv_rows(text: str, delimiter: str) -> Iterator[Row]:
    for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
        if any(len(cell) > MAX_FIELD_CHARS for cell in row):
            raise csv.Error(f"a cell has more than {MAX_FIELD_CHARS:,} characters")
        yield row


def _describe_csv(error: Exception) -> str:
    return f"it is not valid CSV: {error}"


def _column_readers(rows: Iterator[Row]) -> list[Callable[[str], Cell]]:
    """Return a function per column that reads its texts. A column has numbers only if all its values are numbers."""
    readers: list[Callable[[str], Cell]] = []
    for row in rows:
        readers += [int] * (len(row) - len(readers))
        for index, cell in enumerate(row):
            if not isinstance(cell, str) or readers[index] is str:
                continue
            if readers[index] is int and not _WHOLE.fullmatch(cell):
                readers[index] = float
            if readers[index] is float and not (_DECIMAL.fullmatch(cell) and any(map(str.isdigit, cell))):
                readers[index] = str
    return readers


def _read_cells(row: Row, readers: Sequence[Callable[[str], Cell]]) -> Row:
    return [reader(cell) if isinstance(cell, str) else cell for cell, reader in zip(row, readers, strict=False)]
