"""Cutting texts into chunks: along headings and paragraphs, with some overlap, each with the place that it is from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.tokens import estimate_tokens, shorten

__all__ = ["MAX_NAME_CHARS", "Block", "Piece", "bounded", "pieces_of", "row_text"]

MAX_BLOCKS = 1_000_000
MAX_TEXT_CHARS = 128 * 1024 * 1024
"""How much text a file may hold. A few bytes can say a lot: every row repeats the names of its columns."""

MAX_NAME_CHARS = 200
"""Longest name of a column or field that is repeated."""

_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？；])|\n+")
_MAX_HEADING_CHARS = 200
_WIDEST_CHARS_PER_TOKEN = 4


class Block(NamedTuple):
    """A paragraph, a row or a heading. Lines count from 1; so do pages, where there are any, else it is 0."""

    text: str
    first_line: int = 1
    last_line: int = 1
    page: int = 0
    heading: int = 0
    """The level of a heading, 0 for everything else."""


class Piece(NamedTuple):
    """A chunk. ``positions`` are ``[page, 0, 0, first line, last line]``, in the order of RAGFlow's."""

    content: str
    positions: list[list[int]]


def bounded(blocks: Iterable[Block]) -> list[Block]:
    """Gather blocks as they are made.

    Raises:
        ServiceError: as soon as they are too many, or too long together.
    """
    gathered: list[Block] = []
    size = 0
    for block in blocks:
        gathered.append(block)
        size += len(block.text)
        if size > MAX_TEXT_CHARS:
            raise ServiceError(f"it holds more than {MAX_TEXT_CHARS:,} characters of text; split it")
        if len(gathered) > MAX_BLOCKS:
            raise ServiceError(f"it has more than {MAX_BLOCKS:,} paragraphs or rows; split it")
    return gathered


def pieces_of(blocks: Iterable[Block], tokens: int, overlap: int) -> Iterator[Piece]:
    """Cut a text into chunks of at most about ``tokens``, each under the headings that it stands below.

    A heading begins a new chunk. Within a section the last sentences of a chunk, up to ``overlap`` tokens, begin the
    next one too.
    """
    headings: list[Block] = []
    gathered = _Gathered(tokens, overlap)
    for block in blocks:
        if not block.text.strip():
            continue
        if block.heading:
            yield from gathered.finish(headings)
            headings = [h for h in headings if h.heading < block.heading]
            headings.append(block._replace(text=" ".join(block.text.split())[:_MAX_HEADING_CHARS]))
            gathered.is_new_section = True
            continue
        for part in _parts(block, tokens):
            yield from gathered.add(part, headings)
    yield from gathered.finish(headings)


def row_text(head: list[str], cells: list[str]) -> str:
    """Write a row with the names of its columns."""
    held = [(head[at] if at < len(head) else "", cell) for at, cell in enumerate(cells) if cell]
    return "; ".join(f"{name[:MAX_NAME_CHARS]}: {cell}" if name else cell for name, cell in held)


class _Gathered:
    """The parts of the chunk that is being made."""

    def __init__(self, tokens: int, overlap: int) -> None:
        self._tokens, self._overlap = tokens, min(overlap, tokens // 2)
        self._parts: list[Block] = []
        self._size = 0
        self._new = 0
        """How many parts are no overlap."""
        self.is_new_section = False
        """Whether a heading stands last, below which nothing has come yet."""

    def add(self, part: Block, headings: Sequence[Block]) -> Iterator[Piece]:
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

    def finish(self, headings: Sequence[Block]) -> Iterator[Piece]:
        if self._new:
            yield self._piece(headings)
        elif self.is_new_section and headings:  # a heading with nothing below it
            yield Piece(_path(headings), [_position(headings[-1:])])
        self._parts, self._size, self._new, self.is_new_section = [], 0, 0, False

    def _piece(self, headings: Sequence[Block]) -> Piece:
        text = "\n".join(block.text for block in self._parts)
        pages: dict[int, list[Block]] = {}
        for block in self._parts:
            pages.setdefault(block.page, []).append(block)
        positions = [_position(blocks) for blocks in pages.values()]
        return Piece(f"{_path(headings)}\n{text}" if headings else text, positions)


def _path(headings: Sequence[Block]) -> str:
    return " > ".join(heading.text for heading in headings)


def _position(blocks: Sequence[Block]) -> list[int]:
    first, last = min(block.first_line for block in blocks), max(block.last_line for block in blocks)
    return [blocks[0].page, 0, 0, first, last]


def _parts(block: Block, tokens: int) -> Iterator[Block]:
    """Cut a block that is too long at the ends of sentences, else at blanks, else anywhere."""
    if estimate_tokens(block.text) <= tokens:
        yield block._replace(text=block.text.strip())
        return
    current, line, size = "", block.first_line, 0
    begun = line
    for sentence, breaks in _sentences(block.text):
        for part in _slices(sentence, tokens):
            more = estimate_tokens(part)
            if size + more > tokens:  # the sum of its parts is at least what it has
                size = estimate_tokens(current)
            if current and size + more > tokens:
                yield block._replace(text=current.strip(), first_line=begun, last_line=line)
                current, begun, size = "", line, 0
            current += part
            size += more
        line = min(line + breaks, block.last_line)
    if current.strip():
        yield block._replace(text=current.strip(), first_line=begun, last_line=block.last_line)


def _sentences(text: str) -> Iterator[tuple[str, int]]:
    """Give the sentences with what stands behind them, and the number of line breaks in each."""
    at = 0
    for match in _SENTENCE_END.finditer(text):
        if match.end() > at:
            sentence = text[at : match.end()]
            yield sentence, sentence.count("\n")
            at = match.end()
    if at < len(text):
        yield text[at:], text.count("\n", at)


def _slices(sentence: str, tokens: int) -> Iterator[str]:
    at = 0
    while at < len(sentence):
        window = sentence[at : at + tokens * _WIDEST_CHARS_PER_TOKEN]
        part = shorten(window, tokens)
        if at + len(part) < len(sentence) and (blank := part.rfind(" ")) > len(part) // 2:
            part = part[: blank + 1]
        at += len(part)
        yield part


def _tail(parts: Sequence[Block], tokens: int) -> list[Block]:
    """Give the last sentences of the last part, as many as fit into ``tokens``."""
    if tokens <= 0:
        return []
    last, kept, size = parts[-1], "", 0
    for sentence, _ in reversed(list(_sentences(last.text))):
        size += estimate_tokens(sentence)
        if size > tokens:
            break
        kept = sentence + kept
    line = max(last.first_line, last.last_line - kept.strip().count("\n"))
    return [last._replace(text=kept.strip(), first_line=line)] if kept.strip() else []
