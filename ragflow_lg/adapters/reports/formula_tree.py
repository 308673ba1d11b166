"""The tree of a formula, which all targets write from."""

from __future__ import annotations

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
