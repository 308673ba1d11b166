"""The tree of a Markdown text, which all targets write from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

ColumnAlignment: TypeAlias = Literal["left", "center", "right"]


class Atom(Struct, frozen=True):
    """A part of a formula without parts: a letter or sign, a number, a text, or a name such as ``sin``."""

    kind: Literal["symbol", "number", "text", "name"]
    text: str


class Row(Struct, frozen=True):
    """Parts next to each other."""

    parts: tuple[Formula, ...]


class Fraction(Struct, frozen=True):
    """A fraction, or with ``has_line`` false two parts above each other."""

    top: Formula
    bottom: Formula
    has_line: bool = True


class Root(Struct, frozen=True):
    """A root; without ``index`` a square root."""

    body: Formula
    index: Formula | None = None


class Scripts(Struct, frozen=True):
    """A base with a subscript and a superscript, or with ``is_limits`` a part below and one above it."""

    base: Formula
    lower: Formula | None = None
    upper: Formula | None = None
    is_limits: bool = False


ACCENTS: Mapping[str, str] = {
    "^": "\u0302",
    "~": "\u0303",
    "ˇ": "\u030c",
    "˘": "\u0306",
    "´": "\u0301",
    "`": "\u0300",
    "˙": "\u0307",
    "¨": "\u0308",
    "→": "\u20d7",
}
"""The combining characters of signs above a base."""


class Accent(Struct, frozen=True):
    """A sign above a base, or with ``is_below`` below it."""

    base: Formula
    mark: str
    is_below: bool = False


class Fence(Struct, frozen=True):
    """A body between two brackets as tall as the body; ``""`` for no bracket."""

    opening: str
    body: Formula
    closing: str


class Grid(Struct, frozen=True):
    """Rows of cells. All rows have the same number of cells."""

    rows: tuple[tuple[Formula, ...], ...]
    alignments: tuple[ColumnAlignment, ...]


class Space(Struct, frozen=True):
    """A space, in em."""

    width: float


Formula: TypeAlias = Atom | Row | Fraction | Root | Scripts | Accent | Fence | Grid | Space


Alignment: TypeAlias = Literal["", "left", "center", "right"]


class Text(Struct, frozen=True):
    """Plain text."""

    text: str


class Code(Struct, frozen=True):
    """Code inside a line."""

    text: str


class Styled(Struct, frozen=True):
    """Inline content that is emphasised, strong or struck through."""

    style: Literal["emphasis", "strong", "strike"]
    content: tuple[Inline, ...]


class Link(Struct, frozen=True):
    """A link to an ``http``, ``https`` or ``mailto`` address."""

    address: str
    content: tuple[Inline, ...]


class Image(Struct, frozen=True):
    """An image, with the text that replaces it if it cannot be shown."""

    address: str
    description: str


class LineBreak(Struct, frozen=True):
    """The end of a line inside a paragraph."""


class Math(Struct, frozen=True):
    """A formula: its source in LaTeX, and its tree, or None if it cannot be translated."""

    latex: str
    formula: Formula | None
    is_block: bool = False


Inline: TypeAlias = Text | Code | Styled | Link | Image | LineBreak | Math


class Paragraph(Struct, frozen=True):
    """A paragraph."""

    content: tuple[Inline, ...]


class Heading(Struct, frozen=True):
    """A heading of level 1 to 6."""

    level: int
    content: tuple[Inline, ...]


class CodeBlock(Struct, frozen=True):
    """Lines of code; ``language`` may be anything."""

    text: str
    language: str = ""


class Quote(Struct, frozen=True):
    """A quotation."""

    blocks: tuple[Block, ...]


class ListItem(Struct, frozen=True):
    """An item of a list."""

    blocks: tuple[Block, ...]


class ItemList(Struct, frozen=True):
    """A list, numbered from ``start`` unless that is None."""

    items: tuple[ListItem, ...]
    start: int | None = None
    is_tight: bool = True


class Table(Struct, frozen=True):
    """A table. All rows have as many cells as ``alignments``."""

    alignments: tuple[Alignment, ...]
    head: tuple[tuple[Inline, ...], ...]
    rows: tuple[tuple[tuple[Inline, ...], ...], ...]


class Rule(Struct, frozen=True):
    """A horizontal line."""


Block: TypeAlias = Paragraph | Heading | CodeBlock | Quote | ItemList | Table | Rule


def plain_text(content: Sequence[Inline]) -> str:
    """Return inline content without its styles. Images and formulas become their text."""
    return "".join(_plain(part) for part in content)


def _plain(part: Inline) -> str:
    if isinstance(part, Text | Code):
        return part.text
    if isinstance(part, Styled | Link):
        return plain_text(part.content)
    if isinstance(part, Image):
        return part.description
    return "\n" if isinstance(part, LineBreak) else part.latex


def title_of(blocks: Sequence[Block]) -> str:
    """Return the text of the first heading, or ``""``."""
    return next((plain_text(block.content) for block in blocks if isinstance(block, Heading)), "")


def block_text(block: Block) -> str:
    """Return the text of a block, without its images and formulas."""
    return " ".join(part.text for part in inline_parts((block,)) if isinstance(part, Text))


def inline_parts(blocks: Sequence[Block]) -> Iterator[Inline]:
    """Yield all inline content, with the content of styles and links."""
    for block in blocks:
        if isinstance(block, Paragraph | Heading):
            yield from _parts(block.content)
        elif isinstance(block, Quote):
            yield from inline_parts(block.blocks)
        elif isinstance(block, ItemList):
            for item in block.items:
                yield from inline_parts(item.blocks)
        elif isinstance(block, Table):
            for row in (block.head, *block.rows):
                for cell in row:
                    yield from _parts(cell)


def count_cells(blocks: Sequence[Block]) -> int:
    """Return the number of cells of all tables."""
    count = 0
    for block in blocks:
        if isinstance(block, Table):
            count += len(block.alignments) * (1 + len(block.rows))
        elif isinstance(block, Quote):
            count += count_cells(block.blocks)
        elif isinstance(block, ItemList):
            count += sum(count_cells(item.blocks) for item in block.items)
    return count


def _parts(content: Sequence[Inline]) -> Iterator[Inline]:
    for part in content:
        yield part
        if isinstance(part, Styled | Link):
            yield from _parts(part.content)
