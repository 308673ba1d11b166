"""State values as text. An inner checkpointer sees nothing but text, so reading never creates objects.

Each value is one JSON text. Parts of half a kilobyte or more are *blobs*: they are stored once, under the hash of their
text, and replaced by a mark in the surrounding text; see `ragflow_lg.checkpoints.values.marks`. Long maps and lists are
split into groups of entries, counted from the start, so that after an append nearly all blobs are shared with the
previous version.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, cast

import orjson

from ragflow_lg.base.errors import CheckpointError, ComponentError
from ragflow_lg.base.values import to_json
from ragflow_lg.checkpoints.values.decoding import MAX_EXPANDED_BYTES
from ragflow_lg.checkpoints.values.marks import blob_digest, blob_mark
from ragflow_lg.checkpoints.values.seals import seal

BLOB_BYTES = 512
"""Parts of a value that are at least this large become blobs."""

WHOLE_BYTES = 1024
"""Smaller values are stored whole: most of a turn are."""

GROUP = 16
"""Entries per group of a list or map, and groups per group of the next level."""

GROUP_BYTES = GROUP * BLOB_BYTES
"""Groups that are at least this large are encoded entry by entry."""

MAX_DEPTH = 20
"""Parts that are deeper are not split."""

_OPTIONS = orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS


def encode(value: Any, known: Container[str], blobs: dict[str, bytes]) -> str:
    """Return the text of a value, and add its blobs to ``blobs``, by hash, except those that are ``known``.

    Raises:
        CheckpointError: if the value cannot be stored, or is too large to be read again.
    """
    try:
        text = _dump(value)
    except (TypeError, ValueError, RecursionError):  # other values are converted as in component outputs
        try:
            value = to_json(value)
            text = _dump(value)
        except (ComponentError, TypeError, ValueError, RecursionError) as error:
            raise CheckpointError(f"A value cannot be stored: {error}") from None
    if len(text) > MAX_EXPANDED_BYTES:
        raise CheckpointError(f"Values of more than {MAX_EXPANDED_BYTES:,} bytes cannot be stored.")
    return seal(text if len(text) < WHOLE_BYTES else _Parts(known, blobs).shorten(value, text, 0))


class _Parts:
    """The parts of a value."""

    def __init__(self, known: Container[str], blobs: dict[str, bytes]) -> None:
        self._known = known
        self._blobs = blobs

    def shorten(self, value: Any, text: bytes, depth: int) -> bytes:
        """Return the text of a value, or the mark that stands for it if it is large."""
        if len(text) >= BLOB_BYTES and depth < MAX_DEPTH:
            if type(value) is dict:
                text = b"{" + self._split(list(cast("dict[str, Any]", value).items()), depth + 1, is_map=True) + b"}"
            elif type(value) in (list, tuple):
                text = b"[" + self._split(cast("Sequence[Any]", value), depth + 1, is_map=False) + b"]"
        return self._blob(text)

    def _split(self, entries: Sequence[Any], depth: int, *, is_map: bool) -> bytes:
        """Return the entries of a list or map. Groups of them, and groups of groups, become blobs."""
        groups = [entries[start : start + GROUP] for start in range(0, len(entries), GROUP)]
        if len(groups) <= 1:
            return self._join(entries, depth, is_map=is_map)
        texts: list[bytes] = []
        for group in groups:
            text = _dump(dict(group) if is_map else group)[1:-1]
            are_large = len(text) >= GROUP_BYTES  # a call for each small entry would take most of the time
            texts.append(self._blob(self._join(group, depth, is_map=is_map) if are_large else text))
        while len(texts) > GROUP:
            starts = range(0, len(texts), GROUP)
            texts = [self._blob(b",".join(texts[start : start + GROUP])) for start in starts]
        return b",".join(texts)

    def _join(self, entries: Sequence[Any], depth: int, *, is_map: bool) -> bytes:
        if is_map:
            return b",".join(_dump(key) + b":" + self.shorten(part, _dump(part), depth) for key, part in entries)
        return b",".join(self.shorten(part, _dump(part), depth) for part in entries)

    def _blob(self, text: bytes) -> bytes:
        """Store a large text, and return its mark."""
        if len(text) < BLOB_BYTES:
            return text
        digest = blob_digest(text)
        if digest not in self._known:
            self._blobs[digest] = text
        return blob_mark(digest)


def _dump(value: Any) -> bytes:
    return orjson.dumps(value, option=_OPTIONS)
