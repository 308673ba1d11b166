"""Conversion of DOCX, PDF and XLSX to blocks of text, with the libraries from the ``documents`` extra."""

from __future__ import annotations

import importlib
import io
import logging
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from ragflow_lg.adapters.knowledge.chunking import Block, collect_blocks, format_row
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.extras import install_command
from ragflow_lg.base.zip_size import check_unpacked_size

MAX_PAGES = 10_000
MAX_CELLS = 20_000_000
"""Maximum number of cells and rows in a file, including empty ones before and between others."""

MAX_ROWS = 1_048_576
"""Excel's maximum number of rows; a file may claim more."""

_HEADING_STYLE = re.compile(r"heading (\d)|title", re.IGNORECASE)


def read_docx(content: bytes) -> list[Block]:
    """Read a Word document: paragraphs, headings (recognized by style) and table rows; each counts as a line."""
    with _converting_errors("python-docx"):
        library: Any = importlib.import_module("docx")
        check_unpacked_size(content)
        return collect_blocks(_docx(library, content))


def read_pdf(content: bytes) -> list[Block]:
    """Read the text of a PDF, page by page. Text in images is not recognized."""
    with _converting_errors("pypdf"):
        _silence(logging.getLogger("pypdf"))
        library: Any = importlib.import_module("pypdf")
        blocks = collect_blocks(_pdf(library, content))
    if not blocks:
        raise ServiceError("it contains no text; scanned pages need text recognition first")
    return blocks


def read_xlsx(content: bytes) -> list[Block]:
    """Read the rows of all sheets with their column names; lines are rows, pages are sheets."""
    with _converting_errors("openpyxl"):
        library: Any = importlib.import_module("openpyxl")
        check_unpacked_size(content)
        return collect_blocks(_xlsx(library, content))


def _silence(library: logging.Logger) -> None:
    """Silence a library's log unless its level is set, because errors already report the problem."""
    if library.level == logging.NOTSET:
        library.setLevel(logging.CRITICAL)


@contextmanager
def _converting_errors(package: str) -> Generator[None]:
    """Convert a library's exceptions to a ServiceError."""
    try:
        yield
    except (ServiceError, MemoryError):
        raise  # a worker process reports what it has used up
    except ImportError:
        raise ServiceError(f"{package} is not installed: {install_command('documents')}") from None
    except Exception as error:  # libraries raise anything for damaged files
        why = " ".join(str(error).split())[:200]
        raise ServiceError(
            f"it is damaged or not of this type: {type(error).__name__}{': ' if why else ''}{why}"
        ) from error


def _docx(library: Any, content: bytes) -> Iterator[Block]:
    document = library.Document(io.BytesIO(content))
    if sum(map(int, document.element.xpath("//w:gridSpan/@w:val"))) > MAX_CELLS:
        raise ServiceError(f"its tables have more than {MAX_CELLS:,} cells")
    number = 0
    for part in document.iter_inner_content():
        if hasattr(part, "rows"):
            for row in part.rows:
                number += 1
                cells = dict.fromkeys(" ".join(str(cell.text).split()) for cell in row.cells)
                yield Block(" | ".join(cell for cell in cells if cell), number, number)
        else:
            number += 1
            style = _HEADING_STYLE.match(str(part.style.name if part.style is not None else ""))
            level = int(style[1] or 1) if style else 0
            yield Block(str(part.text), number, number, heading=level)


def _pdf(library: Any, content: bytes) -> Iterator[Block]:
    reader = library.PdfReader(io.BytesIO(content))
    if reader.is_encrypted and not reader.decrypt(""):
        raise ServiceError("it is encrypted with a password")
    if len(reader.pages) > MAX_PAGES:
        raise ServiceError(f"it has {len(reader.pages):,} pages, more than {MAX_PAGES:,}")
    for number, page in enumerate(reader.pages, 1):
        text = str(page.extract_text() or "")
        lines: list[str] = []
        first = 1
        for line_number, line in enumerate([*text.splitlines(), ""], 1):
            if line.strip():
                first = first if lines else line_number
                lines.append(line.strip())
            elif lines:
                yield Block("\n".join(lines), first, line_number - 1, number)
                lines = []


def _xlsx(library: Any, content: bytes) -> Iterator[Block]:
    book = library.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    cell_count = 0
    for number, sheet in enumerate(book.worksheets, 1):
        yield Block(str(sheet.title), 1, 1, number, heading=1)
        head: list[str] = []
        for row_number, row in enumerate(sheet.iter_rows(values_only=True), 1):
            cell_count += 1 + len(row)
            if cell_count > MAX_CELLS or row_number > MAX_ROWS:
                raise ServiceError(f"it has more than {MAX_CELLS:,} cells, or {MAX_ROWS:,} rows in a sheet; split it")
            cells = ["" if value is None else str(value).strip() for value in row]
            if not any(cells):
                continue
            if not head:
                head = cells
                continue
            yield Block(format_row(head, cells), row_number, row_number, number)
