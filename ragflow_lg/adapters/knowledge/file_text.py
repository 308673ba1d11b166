"""Conversion of files to blocks of text and metadata. Office files and PDFs require the ``documents`` extra."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, NamedTuple, cast

from ragflow_lg.adapters.knowledge.chunking import MAX_NAME_CHARS, Block, collect_blocks, format_row
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.html_text import html_to_text
from ragflow_lg.base.values import JsonValue, to_json

SIDECAR = ".meta.json"
"""Suffix of a document's metadata file."""

_ENTRY = re.compile(r"([\w.-]{1,64})[ \t]*:[ \t]*(.*)$")
_ITEM = re.compile(r"[ \t]+-[ \t]+(.+)$|-[ \t]+(.+)$")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{1,15})?$")
_MAX_LINES = 200
_CONSTANTS: Mapping[str, JsonValue] = {"true": True, "false": False, "null": None, "~": None, "": None}

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Maximum size of a file."""

SUFFIXES = frozenset(
    (".txt", ".text", ".md", ".markdown", ".html", ".htm", ".csv", ".tsv", ".json", ".jsonl", ".docx", ".pdf", ".xlsx")
)
"""Suffixes of supported files, ignoring case."""

_MARKDOWN_HEADING = re.compile(r"#{1,6}(?=\s)")
_LINE = re.compile(r"([^\r\n]*)(?:\r\n|\r|\n|$)")
_FENCE = re.compile(r"\s{0,3}(```|~~~)")
_CHINESE = re.compile("[\u4e00-\u9fff\u3000-\u303f\uff00-\uffef]")
_MAX_FIELD_CHARS = 1024 * 1024
_MAX_DEPTH = 40


class FileText(NamedTuple):
    """The blocks of a file and the metadata at its beginning."""

    blocks: list[Block]
    metadata: Mapping[str, JsonValue]


def read_blocks(name: str, content: bytes) -> FileText:
    """Read a file according to its suffix. CPU-bound: call it in a thread.

    Raises:
        ServiceError: if the file cannot be read; the message says why and how to fix it.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix in (".docx", ".pdf", ".xlsx"):
        from ragflow_lg.adapters.knowledge.office_files import read_docx, read_pdf, read_xlsx

        return FileText({".docx": read_docx, ".pdf": read_pdf, ".xlsx": read_xlsx}[suffix](content), {})
    if suffix not in SUFFIXES:
        kind = f"of type {suffix}" if suffix else "without a suffix"
        raise ServiceError(f"files {kind} are not supported")
    text = _decode(content)
    if suffix in (".html", ".htm"):
        return FileText(collect_blocks(_html(text)), {})
    if suffix in (".csv", ".tsv"):
        return FileText(collect_blocks(_table(text)), {})
    if suffix == ".json":
        return FileText(collect_blocks(_json(text)), {})
    if suffix == ".jsonl":
        rows = (Block(_line(_parse_json(one, at)), at, at) for at, one in _lines(text) if one.strip())
        return FileText(collect_blocks(rows), {})
    metadata, skipped = split_front_matter(text)
    blocks = _markdown(text, skipped) if suffix in (".md", ".markdown") else _paragraphs(text, skipped)
    return FileText(collect_blocks(blocks), metadata)


def _decode(content: bytes) -> str:
    """Decode UTF-8, the encoding that a byte order mark indicates, or GB 18030 if the result is mostly Chinese."""
    for mark, encoding in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if content.startswith(mark):
            return content.decode(encoding, "replace")
    if b"\0" in content:
        raise ServiceError("it is binary, not text")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = f"it is not UTF-8 text (at byte {error.start:,}); save it as UTF-8"
    try:
        text = content.decode("gb18030")
    except UnicodeDecodeError:
        raise ServiceError(problem) from None
    foreign = sum(not c.isascii() for c in text)
    if 2 * len(_CHINESE.findall(text)) < foreign:
        raise ServiceError(problem)
    return text


def _lines(text: str) -> Iterator[tuple[int, str]]:
    return enumerate((match[1] for match in _LINE.finditer(text)), 1)


def _heading(line: str) -> tuple[int, str] | None:
    """Return the level and text of a Markdown heading. A single regular expression could take hours."""
    mark = _MARKDOWN_HEADING.match(line)
    return (mark.end(), line[mark.end() :].strip().rstrip("#").rstrip()) if mark else None


def _paragraphs(text: str, skipped: int) -> Iterator[Block]:
    lines: list[str] = []
    first = 1
    for number, line in _lines(text):
        if number > skipped and line.strip():
            first = first if lines else number
            lines.append(line.rstrip())
        elif lines:
            yield Block("\n".join(lines), first, first + len(lines) - 1)
            lines = []
    if lines:
        yield Block("\n".join(lines), first, first + len(lines) - 1)


def _markdown(text: str, skipped: int) -> Iterator[Block]:
    """Yield paragraphs and headings; code fences contain no headings."""
    lines: list[str] = []
    first, fence = 1, ""
    for number, line in _lines(text):
        if number <= skipped:
            continue
        mark = _FENCE.match(line)
        heading = None if fence else _heading(line)
        if lines and not fence and (heading or not line.strip()):
            yield Block("\n".join(lines), first, number - 1)
            lines = []
        if mark and (not fence or mark[1] == fence):
            fence = "" if fence else mark[1]
        if heading:
            yield Block(heading[1], number, number, heading=heading[0])
        elif fence or line.strip():
            first = first if lines else number
            lines.append(line.rstrip())
    if lines:
        yield Block("\n".join(lines), first, first + len(lines) - 1)


def _html(text: str) -> Iterator[Block]:
    try:
        lines = html_to_text(text).split("\n")
    except ValueError as error:
        raise ServiceError(str(error).rstrip(".")) from None
    for number, line in enumerate(lines, 1):
        if heading := _heading(line):
            yield Block(heading[1], number, number, heading=heading[0])
        else:
            plain = re.sub(r"<[^>]*>", " ", line) if line.startswith("<table") else line
            yield Block(" ".join(plain.split()), number, number)


def _table(text: str) -> Iterator[Block]:
    """Yield each row as ``column: cell; column: cell``."""
    csv.field_size_limit(_MAX_FIELD_CHARS)
    try:
        dialect: Any = csv.Sniffer().sniff(text[:8192], ",;\t|")
    except csv.Error:
        dialect = csv.excel
    reader = csv.reader(io.StringIO(text, newline=""), dialect)
    head: list[str] = []
    last = 0
    try:
        for row in reader:
            first, last = last + 1, reader.line_num
            cells = [cell.strip() for cell in row]
            if not head:
                head = cells
            elif any(cells):
                yield Block(format_row(head, cells), first, last)
    except csv.Error as error:
        raise ServiceError(f"it is not a valid table: {error} (line {reader.line_num})") from None
    if head and last <= 1:
        yield Block(" ".join(head), 1, 1)


def _parse_json(text: str, line: int = 0) -> JsonValue:
    where = f" (line {line})" if line else ""
    try:
        return json.loads(text)
    except RecursionError:
        raise ServiceError(f"it is JSON nested too deeply{where}") from None
    except json.JSONDecodeError as error:
        why = f"{error.msg}, line {line or error.lineno}, column {error.colno}"
        raise ServiceError(f"it is not JSON: {why}") from None
    except ValueError as error:  # a number with thousands of digits
        raise ServiceError(f"it is not JSON: {error}{where}") from None


def _json(text: str) -> Iterator[Block]:
    value = _parse_json(text)
    rows: list[Any] = [value]
    if isinstance(value, list):
        rows = cast("list[Any]", value)
    elif isinstance(value, dict):
        rows = [{key: entry} for key, entry in cast("dict[str, Any]", value).items()]
    return (Block(_line(row), number, number) for number, row in enumerate(rows, 1))


def _line(value: JsonValue) -> str:
    leaves = (Block(f"{path}: {text}" if path else text) for path, text in _leaves(value, "", 0))
    return "; ".join(leaf.text for leaf in collect_blocks(leaves))


def _leaves(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth < _MAX_DEPTH and isinstance(value, dict):
        for key, entry in cast("dict[str, Any]", value).items():
            yield from _leaves(entry, (f"{path}.{key}" if path else key)[:MAX_NAME_CHARS], depth + 1)
    elif depth < _MAX_DEPTH and isinstance(value, list):
        for entry in cast("list[Any]", value):
            yield from _leaves(entry, path, depth + 1)
    elif value is not None and value != "":
        yield path, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def split_front_matter(text: str) -> tuple[dict[str, JsonValue], int]:
    r"""Parse ``key: value`` lines between two ``---`` lines; return the values and the number of front matter lines.

    Values are strings, numbers, booleans and lists (``[a, b]``, or lines ``- a``). Anything else counts as text, so
    that nothing is lost.

    >>> split_front_matter("---\nyear: 2026\ntags: [a, b]\n---\nText")
    ({'year': 2026, 'tags': ['a', 'b']}, 4)
    """
    lines = re.split(r"\r\n|\r|\n", text[:65536])[: _MAX_LINES + 2]
    if not lines or lines[0].rstrip() != "---":
        return {}, 0
    metadata: dict[str, JsonValue] = {}
    open_list: list[JsonValue] | None = None
    for number, line in enumerate(lines[1:], 2):
        if line.rstrip() in ("---", "..."):
            return {key: value for key, value in metadata.items() if value not in (None, [])}, number
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if (item := _ITEM.match(line)) and open_list is not None:
            open_list.append(_value(item[1] or item[2]))
        elif entry := _ENTRY.match(line):
            open_list = [] if not entry[2].strip() else None
            metadata[entry[1]] = open_list if open_list is not None else _value(entry[2])
        else:
            return {}, 0
    return {}, 0


def read_sidecar(content: bytes) -> dict[str, JsonValue]:
    """Parse a metadata file: a JSON object of strings, numbers, booleans and lists of these.

    Raises:
        ServiceError: if it is in another format.
    """
    try:
        value: Any = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise ServiceError(f"its {SIDECAR} is not JSON") from None
    if not isinstance(value, dict):
        raise ServiceError(f"its {SIDECAR} is not a JSON object")
    fields = cast("dict[str, Any]", value)
    for key, entry in fields.items():
        for item in cast("list[Any]", entry) if isinstance(entry, list) else [entry]:
            if not isinstance(item, str | int | float | None):
                raise ServiceError(
                    f"the value of {key!r} in its {SIDECAR} is not a string, number, boolean or list of these"
                )
    # Python's JSON allows lone surrogates and NaN, which cannot be stored.
    metadata = cast("dict[str, JsonValue]", to_json(fields))
    return {key: entry for key, entry in metadata.items() if entry is not None}


def _value(text: str) -> JsonValue:
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return [_scalar(item.strip()) for item in text[1:-1].split(",") if item.strip()]
    return _scalar(text)


def _scalar(text: str) -> JsonValue:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    if _NUMBER.match(text):
        return float(text) if "." in text else int(text)
    return text
