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

MAX_INTEGER = 2**64 - 1
"""Largest whole number that a body may contain: the parser would silently round a larger one."""

_INTEGER = re.compile(rb"(?<![\d.eE+-])-?(\d{19,})(?![\d.eE])")
_NUMBER_CHARS = b"0123456789.eE+-"
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
        self._number = b""
        """The number at the end of the text so far, which the next piece may continue."""

    def feed(self, text: bytes) -> None:
        """Count what the next piece of the text contains.

        Raises:
            RequestError: if the text so far has too many values, they are nested too deeply, or a number is too large.
        """
        if self._backslash or b"\\" in text:
            # Backslashes occur in strings only, so it does not matter what is escaped.
            text = _ESCAPED.sub(b"", self._backslash + text)
            self._backslash = b"\\" if text.endswith(b"\\") else b""
        parts = text.split(b'"')
        outside = b"".join(parts[1 if self._is_in_string else 0 :: 2])
        self._is_in_string ^= len(parts) % 2 == 0
        self._check_integers(outside)
        self._entries += len(outside) - len(outside.translate(None, _MARKS))
        if self._entries > self._max_entries:
            raise RequestError(f"The body has more than {self._max_entries:,} entries.", 101, status=422)
        depths = list(accumulate(map(_STEPS.__getitem__, outside.translate(None, _NO_BRACKET)), initial=self._depth))
        self._depth = depths[-1]
        if max(depths) > MAX_DEPTH:
            raise RequestError(f"The body is nested more than {MAX_DEPTH} levels deep.", 101, status=422)

    def _check_integers(self, outside: bytes) -> None:
        text = self._number + outside
        end = len(text.rstrip(_NUMBER_CHARS))
        self._number = text[end:]
        if any(mark in self._number for mark in (b".", b"e", b"E")):
            self._number = b"0."  # no whole number, however long it is
        for match in _INTEGER.finditer(text[:end]):
            digits, limit = match[1].lstrip(b"0"), 2**63 if match[0][:1] == b"-" else MAX_INTEGER
            if len(digits) > 20 or int(digits or b"0") > limit:
                raise _large_integer(len(digits))
        if len(self._number) > 400:
            raise _large_integer(len(self._number))


def _large_integer(digits: int) -> RequestError:
    message = f"The body has a whole number of {digits:,} digits or more; the largest is {MAX_INTEGER}. "
    return RequestError(message + "Send it as a string.", 101, status=422)


def split_text(text: bytes) -> Iterator[bytes]:
    """Return the slices of a text."""
    return (text[start : start + SLICE_BYTES] for start in range(0, len(text), SLICE_BYTES))
