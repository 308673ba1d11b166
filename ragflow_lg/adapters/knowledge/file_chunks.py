"""The chunks of a file's text, each with the headings above it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ragflow_lg.adapters.knowledge.file_text import MAX_NAME_CHARS, FileText, Page
from ragflow_lg.base.tokens import estimate_tokens

_HEADING = re.compile(r"(#{1,6})\s")
_FENCE = re.compile(r"\s{0,3}(```|~~~)")
_SEPARATORS = [r"\n\s*\n", r"\n", r"[.!?…]\s+|[。！？；]", r"[,，;]\s?", r"\s", r"[\s\S]{64}", ""]
"""Where a text is split: the first one in it, then the next ones in what is still too long."""


class TextChunk(NamedTuple):
    """A chunk. ``positions`` are ``[page, 0, 0, first line, last line]``, in RAGFlow's order."""

    content: str
    positions: Sequence[Sequence[int]]


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
            headings = (heading.replace(" > ", " › ") for heading in section.headings)
            prefix = " > ".join(filter(None, headings))
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
