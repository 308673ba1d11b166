"""Limits on JSON texts, checked while they arrive: parsing millions of values takes the event loop seconds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate

from ragflow_lg.base.errors import RequestError

MAX_ENTRIES = 50_000
"""Maximum number of list entries and object fields in a body that is not a canvas. Storing more takes the event loop
too long."""

MAX_DEPTH = 100
"""Maximum nesting depth of lists and objects in a body. No canvas needs more, and values are processed recursively."""

SLICE_BYTES = 16 * 1024
"""How much text is scanned at once, which takes a few milliseconds at most."""

_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_MARKS = b",[{"
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKET = bytes(set(range(256)) - set(_STEPS))


class JsonScanner:
    """Counts list entries, object fields and levels of nesting in JSON text, piece by piece, without parsing it.

    Empty lists and objects count twice.
    """

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        """Initialize."""
        self._max_entries = max_entries
        self._entries = 0
        self._depth = 0
        self._is_in_string = False
        self._backslash = b""

    def feed(self, text: bytes) -> None:
        """Count what the next piece of the text contains.

        Raises:
            RequestError: if the text so far has too many values, or they are nested too deeply.
        """
        for piece in split_text(text):
            self._scan(piece)

    def _scan(self, piece: bytes) -> None:
        if self._backslash or b"\\" in piece:
            # Backslashes occur in strings only, so it does not matter what is escaped.
            piece = _ESCAPED.sub(b"", self._backslash + piece)
            self._backslash = b"\\" if piece.endswith(b"\\") else b""
        parts = piece.split(b'"')
        outside = b"".join(parts[1 if self._is_in_string else 0 :: 2])
        self._is_in_string ^= len(parts) % 2 == 0
        self._entries += len(outside) - len(outside.translate(None, _MARKS))
        if self._entries > self._max_entries:
            raise RequestError(f"The body has more than {self._max_entries:,} entries.", 101, status=422)
        depths = list(accumulate(map(_STEPS.__getitem__, outside.translate(None, _NO_BRACKET)), initial=self._depth))
        self._depth = depths[-1]
        if max(depths) > MAX_DEPTH:
            raise RequestError(f"The body is nested more than {MAX_DEPTH} levels deep.", 101, status=422)


def split_text(text: bytes) -> Iterator[bytes]:
    """Return the slices of a text."""
    return (text[start : start + SLICE_BYTES] for start in range(0, len(text), SLICE_BYTES))
