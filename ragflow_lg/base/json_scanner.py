"""Limits on JSON from outside, checked while its text arrives and before anything is built from it.

A megabyte of empty lists takes a parser a hundred times as long, and as much memory, as a megabyte of text.
"""

from __future__ import annotations

import json
import math
import re
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

from ragflow_lg.base.errors import ForeignJsonError

SLICE_BYTES = 16 * 1024
"""How much text is scanned at once, which takes a few milliseconds at most."""

_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_MARKS = b",[{"
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKET = bytes(set(range(256)) - set(_STEPS))


class Scanner(Protocol):
    """Counts what a text contains while it arrives."""

    def feed(self, text: bytes) -> object:
        """Count what the next piece contains; raise an error if there is too much so far."""
        ...


class JsonLimits(NamedTuple):
    """What a JSON text may contain. Empty lists and objects count as two entries."""

    size: int
    """In bytes, or characters if it has been decoded."""
    entries: int = 200_000
    depth: int = 100
    """Parsers are recursive."""
    groups: float = math.inf
    """Maximum number of lists and objects, for parsers that take long for each."""


TEXT_LIMITS = JsonLimits(2 * 1024 * 1024)
"""What a text of a model or of a user may have that a node parses in the event loop."""


class JsonScanner:
    """Counts bytes, entries, lists, objects and levels of nesting in JSON text, piece by piece, without parsing it."""

    def __init__(self, limits: JsonLimits) -> None:
        """Initialize."""
        self._limits = limits
        self._size = 0
        self._entries = 0
        self._groups = 0
        self._depth = 0
        self._is_in_string = False
        self._backslash = b""

    def feed(self, text: bytes) -> bytes:
        """Count what the next piece of the text contains, and return the part of it that is outside of strings.

        Raises:
            ForeignJsonError: if the text so far exceeds a limit.
        """
        limits = self._limits
        self._size += len(text)
        if self._size > limits.size:
            raise ForeignJsonError(f"has more than {limits.size:,} bytes")
        if self._backslash or b"\\" in text:
            # Backslashes occur in strings only, so it does not matter what is escaped.
            text = _ESCAPED.sub(b"", self._backslash + text)
            self._backslash = b"\\" if text.endswith(b"\\") else b""
        parts = text.split(b'"')
        outside = b"".join(parts[1 if self._is_in_string else 0 :: 2])
        self._is_in_string ^= len(parts) % 2 == 0
        self._entries += len(outside) - len(outside.translate(None, _MARKS))
        if self._entries > limits.entries:
            raise ForeignJsonError(f"has more than {limits.entries:,} entries")
        brackets = outside.translate(None, _NO_BRACKET)
        self._groups += brackets.count(b"[") + brackets.count(b"{")
        if self._groups > limits.groups:
            raise ForeignJsonError(f"has more than {limits.groups:,} objects and lists")
        depths = list(accumulate(map(_STEPS.__getitem__, brackets), initial=self._depth))
        self._depth = depths[-1]
        if max(depths) > limits.depth:
            raise ForeignJsonError(f"is nested more than {limits.depth} levels deep")
        return outside


def check_json(text: str | bytes, limits: JsonLimits) -> None:
    """Check that a whole text is within the limits.

    Raises:
        ForeignJsonError: if it is not.
    """
    if len(text) > limits.size:
        raise ForeignJsonError(f"has more than {limits.size:,} bytes")
    scanner = JsonScanner(limits._replace(size=4 * limits.size))  # a character has at most four bytes
    for start in range(0, len(text), SLICE_BYTES):
        piece = text[start : start + SLICE_BYTES]
        scanner.feed(piece.encode("utf-8", "replace") if isinstance(piece, str) else piece)


def parse_foreign_json(text: str | bytes, limits: JsonLimits = TEXT_LIMITS) -> Any:
    """Parse JSON within limits, in this thread. Numbers and texts are as the parser of Python returns them.

    Raises:
        ForeignJsonError: if it exceeds a limit or is not JSON.
    """
    check_json(text, limits)
    try:
        decoded = text.decode() if isinstance(text, bytes) else text
        return json.loads(decoded.removeprefix("\ufeff"))
    except (ValueError, RecursionError):  # also for bytes that are not UTF-8, and numbers of thousands of digits
        raise ForeignJsonError("is not valid") from None


async def scan_slices(text: bytes, scanner: Scanner) -> None:
    """Count what a text contains. Others run after each slice.

    Raises:
        RagflowLgError: if there is too much: the scanner's error.
    """
    import asyncio  # here, as `check` reads JSON without a loop

    for start in range(0, len(text), SLICE_BYTES):
        if start:
            await asyncio.sleep(0)
        scanner.feed(text[start : start + SLICE_BYTES])
