"""JSON strings as they are typed: their text, and where each of its characters stands in the source."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_PIECE = re.compile(r"\\u([0-9a-fA-F]{4})|\\(.)|([^\\])", re.DOTALL)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class JsonString(NamedTuple):
    """The text of a string, and the offset of each character in the source, with the end as the last entry."""

    text: str
    offsets: Sequence[int]

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Return where a part of the text begins and ends in the source."""
        return self.offsets[start], self.offsets[end]


def read_string(source: str, start: int, end: int) -> JsonString:
    """Read the characters of a string in a source, without its quotation marks.

    The string may be cut anywhere: an incomplete escape counts as the characters that it consists of.
    """
    raw = source[start:end]
    if "\\" not in raw:
        return JsonString(raw, range(start, end + 1))
    chars: list[str] = []
    offsets: list[int] = []
    for match in _PIECE.finditer(raw):
        char = chr(int(match[1], 16)) if match[1] else _ESCAPES.get(match[2], match[2]) if match[2] else match[3]
        if "\udc00" <= char <= "\udfff" and chars and "\ud800" <= chars[-1] <= "\udbff":
            chars[-1] = (chars[-1] + char).encode("utf-16", "surrogatepass").decode("utf-16")
            continue
        chars.append(char)
        offsets.append(start + match.start())
    return JsonString("".join(chars), [*offsets, end])
