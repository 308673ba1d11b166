"""Reading request bodies within their limits, which are checked while the body arrives."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qsl

from ragflow_lg.base.computing_threads import compute_in_thread
from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.shared.auth import get_app_state
from ragflow_lg.server.http.shared.body_limits import BodyKind, limit_body
from ragflow_lg.server.http.shared.json_bodies import MAX_ENTRIES, SLICE_BYTES, JsonScanner, split_text

if TYPE_CHECKING:
    from starlette.requests import Request

MAX_FIELDS = 1000
"""Maximum number of fields in a form."""

_SMALL_FORM_BYTES = 16 * 1024
"""Size of the forms that are decoded in the event loop, which takes about a millisecond."""


class BodyScanner(Protocol):
    """Counts what a body contains while it arrives."""

    def feed(self, text: bytes) -> None:
        """Count what the next piece contains.

        Raises:
            RequestError: if the body so far contains too much.
        """
        ...


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
        self._scanner: BodyScanner | None = None

    def feed(self, text: bytes) -> None:
        """Count what the next piece contains."""
        if self._scanner is None and (start := text.lstrip()):
            self._scanner = JsonScanner(self._max_entries) if start.startswith(b"{") else FormScanner()
        if self._scanner is not None:
            self._scanner.feed(text)


def max_entries_of(request: Request, kind: BodyKind) -> int:
    """Return how many list entries and object fields a JSON body may have. Canvases need more than other bodies."""
    return get_app_state(request).settings.limits.canvas_entries if kind == "canvas" else MAX_ENTRIES


async def read_bytes(request: Request, kind: BodyKind, scanner: BodyScanner | None = None) -> bytes:
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


async def scan_slices(text: bytes, scanner: BodyScanner) -> None:
    """Count what a text contains. Others run after each slice.

    Raises:
        RequestError: if there are too many.
    """
    for number, piece in enumerate(split_text(text)):
        if number:
            await asyncio.sleep(0)
        scanner.feed(piece)


async def parse_form(raw: bytes) -> dict[str, str]:
    """Return the fields of a form, of which a `FormScanner` has counted the fields."""
    if len(raw) <= _SMALL_FORM_BYTES:
        return _parse_form(raw)
    return await compute_in_thread(_parse_form, raw)


def _parse_form(raw: bytes) -> dict[str, str]:
    return dict(parse_qsl(raw.decode("utf-8", "replace"), keep_blank_values=True))
