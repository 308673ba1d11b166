"""DOCX, PDF and XLSX as blocks of text, by the libraries of the extra ``documents``."""

from __future__ import annotations

import importlib
import io
import logging
import re
import zipfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from ragflow_lg.adapters.knowledge.chunking import Block, bounded, row_text
from ragflow_lg.base.errors import ServiceError

__all__ = ["read_docx", "read_pdf", "read_xlsx"]

MAX_UNPACKED_BYTES = 512 * 1024 * 1024
"""How large the parts of a packed file may be together."""

MAX_TREE_BYTES = 64 * 1024 * 1024
"""How large a part may be that is held as a whole, at some twenty times its size."""

MAX_PAGES = 10_000
MAX_CELLS = 20_000_000
"""How many cells and rows a file may have, empty ones between and before others included."""

MAX_ROWS = 1_048_576
"""How many rows Excel allows; a file may claim any number."""

_READ_IN_PIECES = ("xl/worksheets/", "xl/sharedStrings.xml")
_HEADING_STYLE = re.compile(r"heading (\d)|title", re.IGNORECASE)


def read_docx(content: bytes) -> list[Block]:
    """Read a Word document: paragraphs, headings by their style, rows of tables; lines count these."""
    with _reading("python-docx"):
        library: Any = importlib.import_module("docx")
        _check_size(content)
        return bounded(_docx(library, content))


def read_pdf(content: bytes) -> list[Block]:
    """Read the text of a PDF, page by page. Pictures of text hold none."""
    with _reading("pypdf"):
        _silence(logging.getLogger("pypdf"))
        library: Any = importlib.import_module("pypdf")
        blocks = bounded(_pdf(library, content))
    if not blocks:
        raise ServiceError("it holds no text; scanned pages have to go through text recognition first")
    return blocks


def read_xlsx(content: bytes) -> list[Block]:
    """Read the rows of all sheets with the names of their columns; lines are rows, pages are sheets."""
    with _reading("openpyxl"):
        library: Any = importlib.import_module("openpyxl")
        _check_size(content)
        return bounded(_xlsx(library, content))


def _silence(library: logging.Logger) -> None:
    """Keep a library from telling about each file, unless somebody wants it to: errors say what is wrong."""
    if library.level == logging.NOTSET:
        library.setLevel(logging.CRITICAL)


@contextmanager
def _reading(package: str) -> Generator[None]:
    """Say in our words what a library meets."""
    try:
        yield
    except ServiceError:
        raise
    except ImportError:
        raise ServiceError(f"{package} is missing: pip install 'ragflow-lg[documents]'") from None
    except Exception as error:  # whatever foreign code meets in a damaged file
        why = " ".join(str(error).split())[:200]
        raise ServiceError(
            f"it is damaged, or no such file: {type(error).__name__}{': ' if why else ''}{why}"
        ) from error


def _check_size(content: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        parts = packed.infolist()
    size = sum(part.file_size for part in parts)
    if size > MAX_UNPACKED_BYTES:
        raise ServiceError(f"it unpacks to {size:,} bytes, more than {MAX_UNPACKED_BYTES:,}")
    for part in parts:
        is_tree = part.filename.lower().endswith((".xml", ".rels")) and not part.filename.startswith(_READ_IN_PIECES)
        if is_tree and part.file_size > MAX_TREE_BYTES:
            raise ServiceError(f"a part of it unpacks to {part.file_size:,} bytes, more than {MAX_TREE_BYTES:,}")


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
        raise ServiceError("it is protected by a password")
    if len(reader.pages) > MAX_PAGES:
        raise ServiceError(f"it has {len(reader.pages):,} pages, more than {MAX_PAGES:,}")
    for page, held in enumerate(reader.pages, 1):
        text = str(held.extract_text() or "")
        gathered: list[str] = []
        first = 1
        for number, line in enumerate([*text.splitlines(), ""], 1):
            if line.strip():
                first = first if gathered else number
                gathered.append(line.strip())
            elif gathered:
                yield Block("\n".join(gathered), first, number - 1, page)
                gathered = []


def _xlsx(library: Any, content: bytes) -> Iterator[Block]:
    book = library.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    cell_count = 0
    for number, sheet in enumerate(book.worksheets, 1):
        yield Block(str(sheet.title), 1, 1, number, heading=1)
        head: list[str] = []
        for at, row in enumerate(sheet.iter_rows(values_only=True), 1):
            cell_count += 1 + len(row)
            if cell_count > MAX_CELLS or at > MAX_ROWS:
                raise ServiceError(f"it has more than {MAX_CELLS:,} cells, or {MAX_ROWS:,} rows in a sheet; split it")
            cells = ["" if value is None else str(value).strip() for value in row]
            if not any(cells):
                continue
            if not head:
                head = cells
                continue
            yield Block(row_text(head, cells), at, at, number)
