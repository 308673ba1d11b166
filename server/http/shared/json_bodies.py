"""Limits on JSON texts, checked before they are parsed: parsing millions of values takes the event loop seconds."""

from __future__ import annotations

import re

from ragflow_lg.base.errors import RequestError

MAX_VALUES = 400_000
"""Maximum number of lists, objects and commas in a body, which is more than any canvas has."""
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""A string. It may lack its end: a match that could fail would be tried again at every quotation mark."""


def check_values(text: bytes, max_entries: int = MAX_VALUES // 2) -> None:
    """Check about how many values JSON text contains.

    Text with up to ``max_entries`` list entries and object fields always passes, and text with more than twice as many
    never does.

    Raises:
        RequestError: if it contains more.
    """
    limit = 2 * max_entries + 2
    if len(text) <= limit:
        return
    marks, strings = _STRING.subn(b"", text, count=limit)
    if strings >= limit or marks.count(b",") + marks.count(b"[") + marks.count(b"{") > limit:
        raise RequestError(f"The body has more than {max_entries:,} entries.", 101, status=422)
