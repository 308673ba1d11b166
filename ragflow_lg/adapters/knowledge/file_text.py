"""Text and metadata of files. Office files and PDFs require the ``documents`` extra."""

from __future__ import annotations

import codecs
import csv
import io
import json
import logging
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import PurePath
from typing import Any, NamedTuple, cast
from unicodedata import normalize

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.extras import require
from ragflow_lg.base.foreign_markup import html_to_text
from ragflow_lg.base.spreadsheets.reading import check_unpacked_size
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
DOCUMENTS = frozenset((".docx", ".pdf", ".pptx", ".xlsx"))
SUFFIXES = frozenset((".txt", ".text", ".csv", ".tsv", ".json", ".jsonl")) | MARKUP | DOCUMENTS
"""Suffixes of supported files, ignoring case."""

_HEADING_STYLE = re.compile(r"heading (\d)|title", re.IGNORECASE)
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.{0,65536}?\n)?(?:---|\.\.\.)[ \t]*(?:\n|$)", re.DOTALL)
_CHINESE = re.compile("[\u4e00-\u9fff\u3000-\u303f\uff00-\uffef]")
_DECLARED = re.compile(rb"<(?:meta\b[^>]*?\bcharset|\?xml\b[^>]*?\bencoding)\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_DECODED = {"ascii": "cp1252", "iso8859-1": "cp1252", "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932"}
"""What browsers read in place of an encoding."""

_ENCODING = re.compile(r"(big5|cp|euc|gb|iso|koi8|mac|shift|utf)[\w-]*")
_TITLE_ROWS = 10
"""Maximum number of rows with text, from the first one, among which the column names of a sheet are found."""

_EMPTY_FORMULA = re.compile(rb"(</f>|<f\b[^<>]*/>)\s*+(<v\s*+/>\s*+|<v>\s*+</v>\s*+)?</c>")
_MIN_RUNNING, _RUNNING_SHARE = 3, 0.75
"""How many pages, and which part of those with text, have the same first or last line, or their number in it."""

_LINES_BETWEEN = 8
"""How many lines an average page has, if what pages repeat are running heads, and not the same entries of a form."""

_PAGE_MARK = re.compile(
    r"[-–—| ]{0,3}(?:(?:página|pagina|page|seite|第):? ?|(?:pág|pag|pg|p|s|стр)\. ?)?"
    r"(\d{1,5})(?: ?(?:/|of|de|di|sur|van|von|из) ?(\d{1,5}))? ?[页頁]?[-–—| ]{0,3}",
    re.IGNORECASE,
)
_SPLIT_WORD = re.compile(
    r"([^\W\d_]{2,40})-[ \t]?\n(?!(?:and|or|to|und|oder|bis)\b)(([^\W\d_]{1,40})[^\s-]{0,40})[ \t]?"
)
_COMPOUND = re.compile(r"[^\W\d_]{1,40}-[^\W\d_]{1,40}")
_TYPESET = {0xAD: "-", **{code: normalize("NFKC", chr(code)) for code in range(0xFB00, 0xFB07)}}
"""Hyphens and ligatures, which only typesetting has put into words."""

_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_SLIDES = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_RELATIONSHIP = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


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
    is_page = suffix in (".html", ".htm")
    text = re.sub(r"\r\n?", "\n", _decode(content, _DECLARED.search(content[:1024]) if is_page else None))
    if is_page:
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


def _decode(content: bytes, declared: re.Match[bytes] | None) -> str:
    """Decode UTF-8, what a byte order mark or the text declares, or GB 18030 if the result is mostly Chinese."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", "replace")
    if b"\0" in content:
        raise ServiceError("it is binary, not text")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = ServiceError(f"it is not UTF-8 text (at byte {error.start:,}); save it as UTF-8")
    with suppress(LookupError, UnicodeDecodeError):
        name = codecs.lookup(declared[1].decode("ascii")).name if declared else ""
        if _ENCODING.match(name := _DECODED.get(name, name)):
            return content.decode(name, "replace")
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


def _format_rows(rows: Iterable[tuple[int, Sequence[Any]]], title_rows: int = 1) -> str:
    """Return rows by number as ``column: cell; column: cell``, each in its own line.

    The first row has the columns, or one of the first ``title_rows``: those above it are text.
    """
    filled = (
        (number, row, cells)
        for number, row in rows
        if any(cells := ["" if cell is None else " ".join(str(cell).split()) for cell in row])
    )
    first = list(islice(filled, title_rows))
    header = _find_header(first)
    columns: list[str] = []
    lines: list[str] = []
    size = 0
    for index, (number, _, cells) in enumerate(chain(first, filled)):
        lines += [""] * (number - 1 - len(lines))
        if index <= header:
            lines.append(" ".join(filter(None, cells)))
        if index == header:
            columns = _distinct([cell[:MAX_NAME_CHARS] for cell in cells])
            continue
        if index > header:
            names = columns + [""] * (len(cells) - len(columns))
            pairs = zip(names, cells, strict=False)
            lines.append("; ".join(f"{name}: {cell}" if name else cell for name, cell in pairs if cell))
        if index == header + 1:
            lines[first[header][0] - 1] = ""  # the other rows repeat it
        size += len(lines[-1])
        _check_length(size)
    return "\n".join(lines)


def _check_length(size: int) -> None:
    if size > MAX_TEXT_CHARS:
        raise ServiceError(f"it contains more than {MAX_TEXT_CHARS:,} characters of text; split it")


def _find_header(rows: Sequence[tuple[int, Sequence[Any], Sequence[str]]]) -> int:
    """Return the index of the first row that is no title: short, and with a single cell or an empty row below it.

    It is 0 if that row contains numbers, except years: then it is data below columns of which few have names.
    """
    counts = [sum(map(bool, cells)) for _, _, cells in rows]
    for index, (number, row, _) in enumerate(rows):
        is_short = 2 * counts[index] <= max(counts)  # the longest row is not, so there is one below
        if not is_short or (counts[index] > 1 and rows[index + 1][0] == number + 1):
            has_numbers = any(isinstance(cell, int | float) and not 1900 <= cell <= 2100 for cell in row)
            return 0 if has_numbers else index
    return 0


def _distinct(names: Sequence[str]) -> list[str]:
    """Return the names of columns, of which equal ones get numbers."""
    counts = Counter[str]()
    distinct: list[str] = []
    for name in names:
        counts[name] += 1
        distinct.append(f"{name} ({counts[name]})" if name and counts[name] > 1 else name)
    return distinct


def _read_json(text: str, line: int = 0) -> str:
    """Return JSON in plain characters; a whole file with each value in a line."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=None if line else 0)
    except (ValueError, RecursionError) as error:  # also for a number with thousands of digits
        where = f" (line {line})" if line else ""
        why = "nested too deeply" if isinstance(error, RecursionError) else error
        raise ServiceError(f"it is not JSON: {why}{where}") from None


def _read_document(suffix: str, content: bytes) -> FileText:
    """Read a Word, Excel, PowerPoint or PDF file. Text in images is not recognized."""
    require("documents", "Reading Word, Excel, PowerPoint and PDF files", ServiceError)
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
        return FileText(list(_read_pptx(content) if suffix == ".pptx" else _read_xlsx(content)))


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
    pages = [page.extract_text().translate(_TYPESET).splitlines() for page in reader.pages]
    _remove_running_lines(pages)
    texts = ["\n".join(lines) for lines in pages]
    compounds = {word.lower() for text in texts for word in _COMPOUND.findall(text)}

    def join(word: re.Match[str]) -> str:
        """Move the end of a word that a hyphen splits into the line of its beginning."""
        hyphen = "-" if f"{word[1]}-{word[3]}".lower() in compounds else ""
        return f"{word[1]}{hyphen}{word[2]}\n" if word[3].islower() else word[0]

    for number, text in enumerate(texts, 1):
        yield Page(_SPLIT_WORD.sub(join, text), number)


def _remove_running_lines(pages: Sequence[list[str]]) -> None:
    """Empty the first and the last line of pages: their number alone, or what most pages repeat, except the first time.

    A number counts pages if it rises with them and is not above their count, as years and numbers of invoices are.
    """
    for edge in (0, -1):
        found: dict[tuple[str, int | None], list[tuple[list[str], int]]] = defaultdict(list)
        for number, lines in enumerate(pages):
            places = [index for index, line in enumerate(lines) if line.strip()]
            if not places:
                continue
            line = " ".join(lines[places[edge]].split())
            mark = _PAGE_MARK.fullmatch(line)
            if mark and int(mark[1]) <= len(pages) == int(mark[2] or len(pages)):
                key = f"{line[: mark.start(1)]}#{line[mark.end(1) :]}", int(mark[1]) - number
            else:
                key = line, None
            found[key].append((lines, places[edge]))
        least = max(_MIN_RUNNING, _RUNNING_SHARE * sum(map(len, found.values())))
        has_heads = sum(map(len, pages)) >= _LINES_BETWEEN * len(pages)
        for (_, offset), places in found.items():
            if len(places) >= least and (has_heads or offset is not None):
                for lines, index in places[offset is None :]:
                    lines[index] = ""


def _read_pptx(content: bytes) -> Iterator[Page]:
    """Yield the slides that are shown: title, paragraphs and rows of tables, but no dates and numbers of slides."""
    from docx.opc.package import OpcPackage
    from docx.oxml.parser import parse_xml

    main: Any = OpcPackage.open(io.BytesIO(content)).main_document_part
    show: Any = parse_xml(main.blob)
    parts = [main.rels[entry.get(_RELATIONSHIP)].target_part for entry in show.iter(f"{_SLIDES}sldId")]
    if len(parts) > MAX_PAGES:
        raise ServiceError(f"it has {len(parts):,} slides, more than {MAX_PAGES:,}")
    size = 0
    for number, part in enumerate(dict.fromkeys(parts), 1):  # PowerPoint lists none twice
        slide: Any = parse_xml(part.blob)
        title, lines = "", list[str]()
        for line, is_title in _read_slide(slide):
            size += len(line)
            _check_length(size)
            if is_title and not title and len(line) <= MAX_NAME_CHARS:
                title = line
            elif line:
                lines.append(line)
        text = "\n".join(lines)
        if slide.get("show") not in ("0", "false"):
            yield Page(text or title, number, title if text else "")


def _read_slide(slide: Any) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a slide, and whether they are its title."""

    def text_of(element: Any) -> str:
        parts = element.iter(f"{_DRAWING}t", f"{_DRAWING}br", f"{_DRAWING}tab")
        return " ".join("".join(part.text or " " for part in parts).split())

    for shape in slide.iter(f"{_SLIDES}sp", f"{_DRAWING}tr"):
        kind = next((str(holder.get("type")) for holder in shape.iter(f"{_SLIDES}ph")), "")
        if shape.tag == f"{_DRAWING}tr":
            yield " | ".join(filter(None, map(text_of, shape.iterchildren(f"{_DRAWING}tc")))), False
        elif kind in ("title", "ctrTitle"):
            yield text_of(shape), True
        elif kind not in ("dt", "ftr", "sldNum"):
            yield from ((text_of(paragraph), False) for paragraph in shape.iter(f"{_DRAWING}p"))


def _read_xlsx(content: bytes) -> Iterator[Page]:
    """Yield the sheets that are not hidden. A formula whose value the file does not contain is shown as it is."""
    from openpyxl import load_workbook

    def number_rows(sheets: Sequence[Any]) -> Iterator[tuple[int, Sequence[Any]]]:
        nonlocal cell_count
        for number, rows in enumerate(zip(*(sheet.iter_rows(values_only=True) for sheet in sheets), strict=False), 1):
            row = rows[0] if len(rows) == 1 else list(map(merge, *rows))
            cell_count += 1 + len(row)
            if cell_count > MAX_CELLS or number > MAX_ROWS:
                raise ServiceError(f"it has more than {MAX_CELLS:,} cells, or {MAX_ROWS:,} rows in a sheet; split it")
            yield number, row

    def merge(value: Any, formula: Any) -> Any:
        return value if value is not None or formula is None else f"{getattr(formula, 'text', formula)} (not computed)"

    cell_count = 0
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = [name for name in archive.namelist() if name.startswith("xl/worksheets/")]
        has_empty = any(_EMPTY_FORMULA.search(archive.read(name)) for name in parts)
    books: list[Any] = [
        load_workbook(io.BytesIO(content), read_only=True, data_only=data_only)
        for data_only in ((True, False) if has_empty else (True,))
    ]
    for number, sheets in enumerate(zip(*(book.worksheets for book in books), strict=True), 1):
        if sheets[0].sheet_state == "visible":
            yield Page(_format_rows(number_rows(sheets), _TITLE_ROWS), number, str(sheets[0].title))


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
