"""Reports as plain text: the words of the Markdown without its marks, and tables in columns."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

from ragflow_lg.adapters.reports import report_tree as tree

_RULE = "-" * 40


def write_text(blocks: Sequence[tree.Block], timestamp: str) -> bytes:
    """Return the text as UTF-8."""
    parts = [timestamp] if timestamp else []
    parts += ["\n".join(_block(block)) for block in blocks]
    return ("\n\n".join(parts) + "\n").encode("utf-8", "ignore")


def _block(block: tree.Block) -> Iterator[str]:
    if isinstance(block, tree.Paragraph | tree.Heading):
        yield from _inline(block.content).split("\n")
    elif isinstance(block, tree.CodeBlock):
        yield from ("    " + line for line in block.text.split("\n"))
    elif isinstance(block, tree.Quote):
        yield from ("> " + line for line in _blocks(block.blocks, is_tight=False))
    elif isinstance(block, tree.ItemList):
        for number, item in enumerate(block.items):
            mark = "- " if block.start is None else f"{block.start + number}. "
            lines = list(_blocks(item.blocks, is_tight=block.is_tight)) or [""]
            yield mark + lines[0]
            yield from (" " * len(mark) + line if line else "" for line in lines[1:])
    elif isinstance(block, tree.Table):
        yield from _table(block)
    else:
        yield _RULE


def _blocks(blocks: Sequence[tree.Block], *, is_tight: bool) -> Iterator[str]:
    for number, block in enumerate(blocks):
        if number and not is_tight:
            yield ""
        yield from _block(block)


def _inline(content: Sequence[tree.Inline]) -> str:
    return "".join(_part(part) for part in content)


def _part(part: tree.Inline) -> str:
    if isinstance(part, tree.Link):
        text = _inline(part.content)
        return text if part.address in (text, f"mailto:{text}") else f"{text} ({part.address})"
    if isinstance(part, tree.Image):
        return f"[{part.description or 'image'}]"
    return _inline(part.content) if isinstance(part, tree.Styled) else tree.plain_text((part,))


def _table(table: tree.Table) -> Iterator[str]:
    rows = [[_inline(cell).replace("\n", " ") for cell in row] for row in (table.head, *table.rows)]
    widths = [max(_width(row[at]) for row in rows) for at in range(len(table.alignments))]
    for number, row in enumerate(rows):
        cells = [
            " " * (width - _width(cell)) + cell if alignment == "right" else cell + " " * (width - _width(cell))
            for cell, width, alignment in zip(row, widths, table.alignments, strict=True)
        ]
        yield "  ".join(cells).rstrip()
        if not number:
            yield "  ".join("-" * width for width in widths)


def _width(text: str) -> int:
    """Return the number of columns that a text takes in a terminal."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
