"""Text and metadata of files, and its chunks. Office files and PDFs require the ``documents`` extra."""

from __future__ import annotations

import csv
import io
import json
import logging
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import PurePath
from typing import Any, NamedTuple, cast

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.extras import require
from ragflow_lg.base.foreign_markup import html_to_text
from ragflow_lg.base.spreadsheets.reading import check_unpacked_size
from ragflow_lg.base.tokens import estimate_tokens
from ragflow_lg.base.values import JsonValue, to_json

SIDECAR = ".meta.json"
"""Suffix of a document's metadata file."""

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Maximum size of a file."""

MAX_TEXT_CHARS = 128 * 1024 * 1024
"""Maximum length of a file's text. Small files can expand a lot, because every row repeats the column names."""

MAX_NAME_CHARS = 200
"""Maximum length of a column name in a row, and of a heading."""

MAX_PAGES = 10_000
MAX_CELLS = 20_000_000
"""Maximum number of cells and rows in a file, including empty ones before and between others."""

MAX_ROWS = 1_048_576
"""Excel's maximum number of rows; a file may claim more."""

MARKUP = frozenset((".md", ".markdown", ".html", ".htm"))
DOCUMENTS = frozenset((".docx", ".pdf", ".xlsx"))
SUFFIXES = frozenset((".txt", ".text", ".csv", ".tsv", ".json", ".jsonl")) | MARKUP | DOCUMENTS
"""Suffixes of supported files, ignoring case."""

_HEADING = re.compile(r"(#{1,6})\s")
_HEADING_STYLE = re.compile(r"heading (\d)|title", re.IGNORECASE)
_FENCE = re.compile(r"\s{0,3}(```|~~~)")
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.{0,65536}?\n)?(?:---|\.\.\.)[ \t]*(?:\n|$)", re.DOTALL)
_CHINESE = re.compile("[\u4e00-\u9fff\u3000-\u303f\uff00-\uffef]")
_SEPARATORS = [r"\n\s*\n", r"\n", r"[.!?…]\s+|[。！？；]", r"[,，;]\s?", r"\s", r"[\s\S]{64}", ""]
"""Where a text is split: the first one in it, then the next ones in what is still too long."""


class Page(NamedTuple):
    """A text of which each line is a line, paragraph or row of the file. ``number`` is 0 for files without pages."""

    text: str
    number: int = 0
    title: str = ""
    """What precedes each chunk, besides the headings in the text."""


class FileText(NamedTuple):
    """The pages of a file, or sheets of a workbook, and the metadata at its beginning."""

    pages: Sequence[Page]
    metadata: Mapping[str, JsonValue] = {}
    has_headings: bool = False
    """Whether lines that begin with ``#`` are headings."""


class TextChunk(NamedTuple):
    """A chunk. ``positions`` are ``[page, 0, 0, first line, last line]``, in RAGFlow's order."""

    content: str
    positions: Sequence[Sequence[int]]


def read_file(name: str, content: bytes) -> FileText:
    """Read a file according to its suffix. CPU-bound: call it in a thread.

    Raises:
        ServiceError: if the file cannot be read; the message says why and how to fix it.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix in DOCUMENTS:
        return _read_document(suffix, content)
    if suffix not in SUFFIXES:
        kind = f"of type {suffix}" if suffix else "without a suffix"
        raise ServiceError(f"files {kind} are not supported")
    text = re.sub(r"\r\n?", "\n", _decode(content))
    if suffix in (".html", ".htm"):
        try:
            return FileText([Page(html_to_text(text))], has_headings=True)
        except ValueError as error:
            raise ServiceError(str(error).rstrip(".")) from None
    if suffix in (".csv", ".tsv"):
        return FileText([Page(_read_table(text, csv.excel if suffix == ".csv" else csv.excel_tab))])
    if suffix == ".json":
        return FileText([Page(_read_json(text))])
    if suffix == ".jsonl":
        lines = (_read_json(line, number) if line.strip() else "" for number, line in enumerate(text.split("\n"), 1))
        return FileText([Page("\n".join(lines))])
    text, metadata = split_front_matter(text)
    return FileText([Page(text)], metadata, suffix in MARKUP)


def _decode(content: bytes) -> str:
    """Decode UTF-8, the encoding that a byte order mark indicates, or GB 18030 if the result is mostly Chinese."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", "replace")
    if b"\0" in content:
        raise ServiceError("it is binary, not text")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = ServiceError(f"it is not UTF-8 text (at byte {error.start:,}); save it as UTF-8")
    try:
        text = content.decode("gb18030")
    except UnicodeDecodeError:
        raise problem from None
    if 2 * len(_CHINESE.findall(text)) < sum(not c.isascii() for c in text):
        raise problem
    return text


def _read_table(text: str, dialect: type[csv.Dialect]) -> str:
    csv.field_size_limit(1024 * 1024)
    with suppress(csv.Error):
        dialect = csv.Sniffer().sniff(text[:8192], ",;\t|")
    reader = csv.reader(io.StringIO(text, newline=""), dialect)
    try:
        return _format_rows((reader.line_num, row) for row in reader)
    except csv.Error as error:
        raise ServiceError(f"it is not a valid table: {error} (line {reader.line_num})") from None


def _format_rows(rows: Iterable[tuple[int, Sequence[Any]]]) -> str:
    """Return rows by number as ``column: cell; column: cell``, each in its own line. The first one has the columns."""
    columns: list[str] = []
    lines: list[str] = []
    size = 0
    for number, row in rows:
        cells = ["" if cell is None else " ".join(str(cell).split()) for cell in row]
        if not any(cells):
            continue
        if not columns:
            columns = [cell[:MAX_NAME_CHARS] for cell in cells]
            continue
        names = columns + [""] * (len(cells) - len(columns))
        pairs = zip(names, cells, strict=False)
        lines += [""] * (number - 1 - len(lines))
        lines.append("; ".join(f"{name}: {cell}" if name else cell for name, cell in pairs if cell))
        size += len(lines[-1])
        if size > MAX_TEXT_CHARS:
            raise ServiceError(f"it contains more than {MAX_TEXT_CHARS:,} characters of text; split it")
    return "\n".join(lines) or " ".join(columns)


def _read_json(text: str, line: int = 0) -> str:
    """Return JSON in plain characters; a whole file with each value in a line."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=None if line else 0)
    except (ValueError, RecursionError) as error:  # also for a number with thousands of digits
        where = f" (line {line})" if line else ""
        why = "nested too deeply" if isinstance(error, RecursionError) else error
        raise ServiceError(f"it is not JSON: {why}{where}") from None


def _read_document(suffix: str, content: bytes) -> FileText:
    """Read a Word, Excel or PDF file. Text in images is not recognized."""
    require("documents", "Reading Word, Excel and PDF files", ServiceError)
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # errors report the problem
    with _converting_errors():
        if suffix == ".pdf":
            pages = list(_read_pdf(content))
            if not any(page.text.strip() for page in pages):
                raise ServiceError("it contains no text; scanned pages need text recognition first")
            return FileText(pages)
        check_unpacked_size(content)
        if suffix == ".docx":
            return FileText([Page("\n".join(_read_docx(content)))], has_headings=True)
        return FileText(list(_read_xlsx(content)))


@contextmanager
def _converting_errors() -> Generator[None]:
    """Convert a library's exceptions to a ServiceError."""
    try:
        yield
    except (ServiceError, MemoryError):
        raise  # a worker process reports what it has used up
    except Exception as error:  # libraries raise anything for damaged files
        why = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ServiceError(f"it is damaged or not of this type: {why}") from error


def _read_docx(content: bytes) -> Iterator[str]:
    """Yield paragraphs, headings (recognized by style) and rows of tables."""
    import docx

    document = cast("Any", docx.Document(io.BytesIO(content)))
    if sum(map(int, document.element.xpath("//w:gridSpan/@w:val"))) > MAX_CELLS:
        raise ServiceError(f"its tables have more than {MAX_CELLS:,} cells")
    for part in document.iter_inner_content():
        if hasattr(part, "rows"):
            for row in part.rows:
                cells = dict.fromkeys(" ".join(str(cell.text).split()) for cell in row.cells)
                yield " | ".join(cell for cell in cells if cell)
        else:
            style = _HEADING_STYLE.match(str(part.style.name if part.style is not None else ""))
            level = min(int(style[1] or 1), 6) if style else 0
            yield f"{'#' * level} {' '.join(str(part.text).split())}".strip()


def _read_pdf(content: bytes) -> Iterator[Page]:
    from pypdf import PdfReader

    reader = PdfReader(io.BytesIO(content))
    if reader.is_encrypted and not reader.decrypt(""):
        raise ServiceError("it is encrypted with a password")
    if len(reader.pages) > MAX_PAGES:
        raise ServiceError(f"it has {len(reader.pages):,} pages, more than {MAX_PAGES:,}")
    for number, page in enumerate(reader.pages, 1):
        yield Page("\n".join(page.extract_text().splitlines()), number)


def _read_xlsx(content: bytes) -> Iterator[Page]:
    from openpyxl import load_workbook

    def number_rows(sheet: Any) -> Iterator[tuple[int, Sequence[Any]]]:
        nonlocal cell_count
        for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
            cell_count += 1 + len(row)
            if cell_count > MAX_CELLS or number > MAX_ROWS:
                raise ServiceError(f"it has more than {MAX_CELLS:,} cells, or {MAX_ROWS:,} rows in a sheet; split it")
            yield number, row

    cell_count = 0
    book = load_workbook(io.BytesIO(content), read_only=True, data_only=True)
    for number, sheet in enumerate(book.worksheets, 1):
        yield Page(_format_rows(number_rows(sheet)), number, str(sheet.title))


def split_front_matter(text: str) -> tuple[str, dict[str, JsonValue]]:
    r"""Return a text with empty lines in place of its front matter, and the values in that. Other YAML stays text.

    >>> split_front_matter("---\nyear: 2026\ntags: [a, b]\n---\nText")
    ('\n\n\n\nText', {'year': 2026, 'tags': ['a', 'b']})
    """
    import yaml

    found = _FRONT_MATTER.match(text)
    try:
        metadata = read_metadata(yaml.safe_load(found[1] or "{}")) if found else {}
    except (yaml.YAMLError, ValueError, RecursionError):
        return text, {}
    return "\n" * text.count("\n", 0, found.end() if found else 0) + text[found.end() if found else 0 :], metadata


def read_sidecar(content: bytes) -> dict[str, JsonValue]:
    """Parse a metadata file: a JSON object of strings, numbers, booleans and lists of these.

    Raises:
        ServiceError: if it is in another format.
    """
    try:
        return read_metadata(json.loads(content.decode("utf-8-sig")))
    except (ValueError, RecursionError) as error:
        raise ServiceError(f"its {SIDECAR} cannot be used: {error}") from None


def read_metadata(value: Any) -> dict[str, JsonValue]:
    """Return an object of texts, numbers, booleans and lists of these, without what is empty; dates become texts.

    Raises:
        ValueError: if it is something else.
    """
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    metadata: dict[str, JsonValue] = {}
    for key, entry in cast("dict[Any, Any]", value).items():
        items = cast("list[Any]", entry) if isinstance(entry, list) else [entry]
        plain = [item.isoformat() if hasattr(item, "isoformat") else item for item in items]
        if not all(isinstance(item, str | int | float | None) for item in plain):
            raise ValueError(f"the value of {key!r} is not a string, number, boolean or list of these")
        if entry not in (None, []):
            metadata[str(key)] = plain if isinstance(entry, list) else plain[0]
    # JSON and YAML allow lone surrogates and NaN, which cannot be stored.
    return cast("dict[str, JsonValue]", to_json(metadata))


def split_file(file: FileText, tokens: int, overlap: int) -> list[TextChunk]:
    """Split a file into chunks of at most about ``tokens``, each preceded by the headings above it.

    Pages and headings start a new chunk. A heading without text has a chunk of its own, unless the chunks of a heading
    below it begin with it: titles alone would take places of answers in search results. Within a section, the end of a
    chunk, up to ``overlap`` tokens, is repeated at the start of the next chunk.
    """
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    splitter = RecursiveCharacterTextSplitter(
        _SEPARATORS,
        keep_separator="end",
        is_separator_regex=True,
        chunk_size=tokens,
        chunk_overlap=min(overlap, tokens // 2),
        length_function=estimate_tokens,
        strip_whitespace=False,  # so that each chunk is found in the text again
    )
    chunks: list[TextChunk] = []
    for page in file.pages:
        sections = list(_split_sections(page)) if file.has_headings else [_Section((page.title,), 1, page.text)]
        for index, section in enumerate(sections):
            prefix = " > ".join(filter(None, section.headings))
            line, start, end = section.first_line, 0, 0
            for part in splitter.split_text(section.text):
                # It ends after the last one, and does not repeat more than the overlap, at four characters a token.
                least = max(start, end - 4 * overlap, end - len(part) + 1)
                found = section.text.find(part, least)
                line += section.text.count("\n", start, found)
                start, end = found, found + len(part)
                if content := part.strip():
                    first = line + part.count("\n", 0, part.index(content))
                    position = [page.number, 0, 0, first, first + content.count("\n")]
                    chunks.append(TextChunk(f"{prefix}\n{content}" if prefix else content, [position]))
            below = sections[index + 1].headings[: len(section.headings)] if index + 1 < len(sections) else ()
            if file.has_headings and prefix and not section.text.strip() and below != section.headings:
                heading_line = section.first_line - 1
                chunks.append(TextChunk(prefix, [[page.number, 0, 0, heading_line, heading_line]]))
    return chunks


class _Section(NamedTuple):
    """A text below some headings."""

    headings: tuple[str, ...]
    first_line: int
    text: str


def _split_sections(page: Page) -> Iterator[_Section]:
    """Yield the sections of a Markdown text. Code fences contain no headings."""
    headings: list[tuple[int, str]] = [(0, page.title)] if page.title else []
    lines: list[str] = []
    first, fence = 1, ""
    for number, line in enumerate(page.text.split("\n"), 1):
        mark, heading = _FENCE.match(line), None if fence else _HEADING.match(line)
        if mark and (not fence or mark[1] == fence):
            fence = "" if fence else mark[1]
        if not heading:
            lines.append(line)
            continue
        if headings or lines:
            yield _Section(tuple(text for _, text in headings), first, "\n".join(lines))
        level, text = len(heading[1]), " ".join(line[heading.end() :].strip().rstrip("#").split())
        headings = [*(above for above in headings if above[0] < level), (level, text[:MAX_NAME_CHARS])]
        lines, first = [], number + 1
    yield _Section(tuple(text for _, text in headings), first, "\n".join(lines))
