"""Large texts for Redis, compressed: its only thread copies them several times, while everybody else waits."""

from __future__ import annotations

import zlib

LARGE_BYTES = 64 * 1024
"""Texts from this size on are compressed."""

_MARK = b"\0z"
"""JSON text begins differently."""


def pack(text: bytes) -> bytes:
    """Return a JSON text, or its compressed form if that is much shorter."""
    if len(text) < LARGE_BYTES:
        return text
    packed = _MARK + zlib.compress(text, 1)
    return packed if len(packed) < len(text) * 0.9 else text


def is_packed(stored: bytes) -> bool:
    """Return whether `pack` has compressed a text."""
    return stored.startswith(_MARK)


def unpack(stored: bytes, max_bytes: int) -> bytes:
    """Return the text of which `pack` has returned the stored form.

    Raises:
        ValueError: if it is damaged, or has more than ``max_bytes``.
    """
    if not is_packed(stored):
        return stored
    decompressor = zlib.decompressobj()
    try:
        text = decompressor.decompress(stored[len(_MARK) :], max_bytes)
    except zlib.error as error:
        raise ValueError(f"it cannot be decompressed: {error}") from None
    if not decompressor.eof:
        raise ValueError("it is incomplete or too large")
    return text
