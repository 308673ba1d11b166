"""Splitting of text into chunks along headings and paragraphs, with overlap and positions in the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.tokens import estimate_tokens, shorten

MAX_BLOCKS = 1_000_000
MAX_TEXT_CHARS = 128 * 1024 * 1024
"""Maximum length of a file's text. Small files can expand a lot, because every row repeats the column names."""

MAX_NAME_CHARS = 200
"""Maximum length of a column or field name in a row."""

_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？；])|\n+")
_MAX_HEADING_CHARS = 200
_MAX_CHARS_PER_TOKEN = 4


class Block(NamedTuple):
    """A paragraph, a row or a heading. Lines and pages are numbered from 1; the page is 0 for files without pages."""

    text: str
    first_line: int = 1
    last_line: int = 1
    page: int = 0
    heading: int = 0
    """The level of a heading; 0 for other blocks."""


class TextChunk(NamedTuple):
    """A chunk. ``positions`` are ``[page, 0, 0, first line, last line]``, in RAGFlow's order."""

    content: str
    positions: list[list[int]]


def collect_blocks(blocks: Iterable[Block]) -> list[Block]:
    """Collect blocks in a list.

    Raises:
        ServiceError: as soon as there are too many blocks, or too much text.
    """
    collected: list[Block] = []
    size = 0
    for block in blocks:
        collected.append(block)
        size += len(block.text)
        if size > MAX_TEXT_CHARS:
            raise ServiceError(f"it contains more than {MAX_TEXT_CHARS:,} characters of text; split it")
        if len(collected) > MAX_BLOCKS:
            raise ServiceError(f"it has more than {MAX_BLOCKS:,} paragraphs or rows; split it")
    return collected


def split_into_chunks(blocks: Iterable[Block], tokens: int, overlap: int) -> Iterator[TextChunk]:
    """Split a text into chunks of at most about ``tokens``, each preceded by the headings above it.

    A heading starts a new chunk. A heading without text has a chunk of its own, unless the chunks of a heading below it
    begin with it: titles alone would take places of answers in search results. Within a section, the last sentences of
    a chunk, up to ``overlap`` tokens, are repeated at the start of the next chunk.
    """
    headings: list[Block] = []
    builder = _ChunkBuilder(tokens, overlap)
    for block in blocks:
        if not block.text.strip():
            continue
        if block.heading:
            is_repeated = bool(headings) and headings[-1].heading < block.heading
            yield from builder.finish(headings, is_repeated=is_repeated)
            headings = [h for h in headings if h.heading < block.heading]
            headings.append(block._replace(text=" ".join(block.text.split())[:_MAX_HEADING_CHARS]))
            builder.is_new_section = True
            continue
        for part in _parts(block, tokens):
            yield from builder.add(part, headings)
    yield from builder.finish(headings)


def format_row(head: list[str], cells: list[str]) -> str:
    """Format a row as ``column: cell; column: cell`` without empty cells."""
    pairs = [(head[index] if index < len(head) else "", cell) for index, cell in enumerate(cells) if cell]
    return "; ".join(f"{name[:MAX_NAME_CHARS]}: {cell}" if name else cell for name, cell in pairs)


class _ChunkBuilder:
    """Collects the parts of the current chunk."""

    def __init__(self, tokens: int, overlap: int) -> None:
        self._tokens, self._overlap = tokens, min(overlap, tokens // 2)
        self._parts: list[Block] = []
        self._size = 0
        self._new = 0
        """Number of parts that are not overlap."""
        self.is_new_section = False
        """Whether the last block was a heading."""

    def add(self, part: Block, headings: Sequence[Block]) -> Iterator[TextChunk]:
        size = estimate_tokens(part.text)
        if self._new and self._size + size > self._tokens:
            tail = _tail(self._parts, min(self._overlap, self._tokens - size))
            yield self._piece(headings)
            self._parts, self._new = tail, 0
            self._size = sum(estimate_tokens(block.text) for block in tail)
        self._parts.append(part)
        self._new += 1
        self._size += size
        self.is_new_section = False

    def finish(self, headings: Sequence[Block], *, is_repeated: bool = False) -> Iterator[TextChunk]:
        """Yield what is collected. ``is_repeated`` tells that the headings begin the next chunk as well."""
        if self._new:
            yield self._piece(headings)
        elif self.is_new_section and headings and not is_repeated:  # a heading without text below it
            yield TextChunk(_path(headings), [_position(headings[-1:])])
        self._parts, self._size, self._new, self.is_new_section = [], 0, 0, False

    def _piece(self, headings: Sequence[Block]) -> TextChunk:
        text = "\n".join(block.text for block in self._parts)
        pages: dict[int, list[Block]] = {}
        for block in self._parts:
            pages.setdefault(block.page, []).append(block)
        positions = [_position(blocks) for blocks in pages.values()]
        return TextChunk(f"{_path(headings)}\n{text}" if headings else text, positions)


def _path(headings: Sequence[Block]) -> str:
    return " > ".join(heading.text for heading in headings)


def _position(blocks: Sequence[Block]) -> list[int]:
    first, last = min(block.first_line for block in blocks), max(block.last_line for block in blocks)
    return [blocks[0].page, 0, 0, first, last]


def _parts(block: Block, tokens: int) -> Iterator[Block]:
    """Split a block that is too long at sentence ends, or else at spaces, or else anywhere."""
    if estimate_tokens(block.text) <= tokens:
        yield block._replace(text=block.text.strip())
        return
    current, line, size = "", block.first_line, 0
    first_line = line
    for sentence, breaks in _sentences(block.text):
        for part in _slices(sentence, tokens):
            part_size = estimate_tokens(part)
            if size + part_size > tokens:  # the sum of the parts may exceed the text's size
                size = estimate_tokens(current)
            if current and size + part_size > tokens:
                yield block._replace(text=current.strip(), first_line=first_line, last_line=line)
                current, first_line, size = "", line, 0
            current += part
            size += part_size
        line = min(line + breaks, block.last_line)
    if current.strip():
        yield block._replace(text=current.strip(), first_line=first_line, last_line=block.last_line)


def _sentences(text: str) -> Iterator[tuple[str, int]]:
    """Yield sentences with the white space after them, and the number of line breaks in each."""
    start = 0
    for match in _SENTENCE_END.finditer(text):
        if match.end() > start:
            sentence = text[start : match.end()]
            yield sentence, sentence.count("\n")
            start = match.end()
    if start < len(text):
        yield text[start:], text.count("\n", start)


def _slices(sentence: str, tokens: int) -> Iterator[str]:
    start = 0
    while start < len(sentence):
        window = sentence[start : start + tokens * _MAX_CHARS_PER_TOKEN]
        part = shorten(window, tokens)
        if start + len(part) < len(sentence) and (blank := part.rfind(" ")) > len(part) // 2:
            part = part[: blank + 1]
        start += len(part)
        yield part


def _tail(parts: Sequence[Block], tokens: int) -> list[Block]:
    """Return the last sentences of the last part, up to ``tokens`` tokens."""
    if tokens <= 0:
        return []
    last, tail, size = parts[-1], "", 0
    for sentence, _ in reversed(list(_sentences(last.text))):
        size += estimate_tokens(sentence)
        if size > tokens:
            break
        tail = sentence + tail
    line = max(last.first_line, last.last_line - tail.strip().count("\n"))
    return [last._replace(text=tail.strip(), first_line=line)] if tail.strip() else []
