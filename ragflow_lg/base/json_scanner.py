"""Limits on JSON from outside, checked before anything is built from it.

A megabyte of empty lists takes a parser a hundred times as long, and as much memory, as a megabyte of text.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import Any, NamedTuple

from ragflow_lg.base.errors import ForeignJsonError

_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_MARKS = b",[{"
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKET = bytes(set(range(256)) - set(_STEPS))


class JsonLimits(NamedTuple):
    """What a JSON text may contain. Empty lists and objects count as two entries."""

    size: int
    """In bytes, or characters if it has been decoded."""
    entries: int = 200_000
    depth: int = 100
    """Parsers are recursive."""


TEXT_LIMITS = JsonLimits(2 * 1024 * 1024)
"""What a text of a model or of a user may have that a node parses in the event loop."""


def check_json(text: str | bytes, limits: JsonLimits) -> None:
    """Check that a whole text is within the limits.

    Raises:
        ForeignJsonError: if it is not.
    """
    if len(text) > limits.size:
        raise ForeignJsonError(f"has more than {limits.size:,} bytes")
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    outside = b"".join(_ESCAPED.sub(b"", data).split(b'"')[::2])  # of strings, the only place of backslashes
    if len(outside) - len(outside.translate(None, _MARKS)) > limits.entries:
        raise ForeignJsonError(f"has more than {limits.entries:,} entries")
    brackets = outside.translate(None, _NO_BRACKET)
    if max(accumulate(map(_STEPS.__getitem__, brackets), initial=0)) > limits.depth:
        raise ForeignJsonError(f"is nested more than {limits.depth} levels deep")


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
