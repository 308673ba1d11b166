"""Converts offsets in a text to positions of the language server protocol, and back."""

from __future__ import annotations

import bisect
import itertools
import re
from typing import Literal, NamedTuple

Units = Literal["utf-8", "utf-16", "utf-32"]
"""What the characters of a position count. Editors that do not negotiate use UTF-16."""

_LINE_END = re.compile(r"\r\n?|\n")
_WIDE = {
    "utf-8": re.compile("[^\x00-\x7f]"),
    "utf-16": re.compile("[\U00010000-\U0010ffff]"),
    "utf-32": re.compile(r"(?!)"),
}
"""The characters that take more than one unit."""


class TextPosition(NamedTuple):
    """A line and a character in it, both counted from 0, the character in units of the encoding."""

    line: int
    character: int


class TextPositions:
    """The positions in a text. Lines end only where the protocol says: at LF, CR and CRLF."""

    def __init__(self, text: str, units: Units = "utf-16") -> None:
        ends = list(_LINE_END.finditer(text))
        self._starts = [0, *(match.end() for match in ends)]
        self._ends = [*(match.start() for match in ends), len(text)]
        wide = [(match.start(), _extra_units(match[0], units)) for match in _WIDE[units].finditer(text)]
        self._wide = [start for start, _ in wide]
        self._extra = [0, *itertools.accumulate(extra for _, extra in wide)]

    def position(self, offset: int) -> TextPosition:
        """Return the position of an offset."""
        offset = min(max(offset, 0), self._ends[-1])
        line = bisect.bisect_right(self._starts, offset) - 1
        start = self._starts[line]
        return TextPosition(line, self._units_before(offset) - self._units_before(start))

    def offset(self, line: int, character: int) -> int:
        """Return the offset of a position. A position after the end of its line is that end."""
        if line >= len(self._starts):
            return self._ends[-1]
        line = max(line, 0)
        start, end = self._starts[line], self._ends[line]
        target = self._units_before(start) + max(character, 0)
        return bisect.bisect_right(range(start, end + 1), target, key=self._units_before) - 1 + start

    def _units_before(self, offset: int) -> int:
        return offset + self._extra[bisect.bisect_left(self._wide, offset)]


def _extra_units(char: str, units: Units) -> int:
    """Return how many units a character takes beside the first."""
    if units == "utf-16":
        return 1
    return 1 if char < "\u0800" else 2 if char < "\U00010000" else 3
