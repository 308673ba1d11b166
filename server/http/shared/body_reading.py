"""Reading request bodies within their limits, which are checked while the body arrives.

Parsing millions of JSON values takes the event loop seconds.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from ragflow_lg.base.errors import ForeignJsonError, RequestError
from ragflow_lg.base.json_scanner import SLICE_BYTES, JsonLimits, JsonScanner, Scanner, scan_slices
from ragflow_lg.server.http.shared.auth import get_app_state
from ragflow_lg.server.http.shared.body_limits import BodyKind, limit_body

if TYPE_CHECKING:
    from starlette.requests import Request

MAX_ENTRIES = 50_000
"""Maximum number of list entries and object fields in a body that is not a canvas. Storing more takes the event loop
too long."""

MAX_DEPTH = 100
"""Maximum nesting depth of lists and objects in a body. No canvas needs more, and values are processed recursively."""

MAX_INTEGER = 2**64 - 1
"""Largest whole number that a body may contain: the parser would silently round a larger one."""

_INTEGER = re.compile(rb"(?<![\d.eE+-])-?(\d{19,})(?![\d.eE])")
_NUMBER_CHARS = b"0123456789.eE+-"

MAX_FIELDS = 1000
"""Maximum number of fields in a form."""


class JsonBodyScanner:
    """Counts what the JSON of a body contains, piece by piece, without parsing it."""

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        """Initialize."""
        self._scanner = JsonScanner(JsonLimits(sys.maxsize, max_entries, MAX_DEPTH))  # `limit_body` counts bytes
        self._number = b""
        """The number at the end of the text so far, which the next piece may continue."""

    def feed(self, text: bytes) -> None:
        """Count what the next piece of the text contains.

        Raises:
            RequestError: if the text so far has too many values, they are nested too deeply, or a number is too large.
        """
        try:
            outside = self._scanner.feed(text)
        except ForeignJsonError as error:
            raise RequestError(f"The body {error}.", 101, status=422) from None
        self._check_integers(outside)

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


class FormScanner:
    """Counts the fields of a form."""

    def __init__(self) -> None:
        self._fields = 1

    def feed(self, text: bytes) -> None:
        """Count the fields in the next piece."""
        self._fields += text.count(b"&")
        if self._fields > MAX_FIELDS:
            raise RequestError(f"The form has more than {MAX_FIELDS:,} fields.", 101)


class FormOrJsonScanner:
    """Counts the fields of a form, or the values of a JSON object, which some clients send with a form's type."""

    def __init__(self, max_entries: int) -> None:
        """Initialize. ``max_entries`` is for JSON."""
        self._max_entries = max_entries
        self._scanner: Scanner | None = None

    def feed(self, text: bytes) -> None:
        """Count what the next piece contains."""
        if self._scanner is None and (start := text.lstrip()):
            self._scanner = JsonBodyScanner(self._max_entries) if start.startswith(b"{") else FormScanner()
        if self._scanner is not None:
            self._scanner.feed(text)


def max_entries_of(request: Request, kind: BodyKind) -> int:
    """Return how many list entries and object fields a JSON body may have. Canvases need more than other bodies."""
    return get_app_state(request).settings.limits.canvas_entries if kind == "canvas" else MAX_ENTRIES


async def read_bytes(request: Request, kind: BodyKind, scanner: Scanner | None = None) -> bytes:
    """Read the body. It can be read again, as it was received.

    Args:
        request: The request.
        kind: What the body contains, which determines its largest size.
        scanner: What counts the values or fields.

    Raises:
        RequestError: if it is too large, takes too long, or has too many values. The rest is not read.
    """
    limit_body(request, kind)
    pieces: list[bytes] = []
    async for piece in request.stream():
        pieces.append(piece)
        if scanner is not None and len(piece) <= SLICE_BYTES:
            scanner.feed(piece)
        elif scanner is not None:
            await scan_slices(piece, scanner)
    request._body = b"".join(pieces)  # pyright: ignore[reportPrivateUsage]  # as `Request.body` does
    return request._body  # pyright: ignore[reportPrivateUsage]


async def parse_form(raw: bytes) -> dict[str, str]:
    """Return the fields of a form, of which a `FormScanner` has counted the fields."""
    return dict(parse_qsl(raw.decode("utf-8", "replace"), keep_blank_values=True))
