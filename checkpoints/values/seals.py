"""The checksums of stored texts, and characters that a store would change."""

from __future__ import annotations

from hashlib import blake2b

from ragflow_lg.base.errors import DamagedSessionError
from ragflow_lg.checkpoints.key_ring import require_plain

_SEAL, _SEAL_TEXT = b"\x04", "\x04"
"""Separates a text from its checksum."""
_NULL, _NULL_MARK = rb"\u0000", b"\x02"
"""LangGraph's Redis saver removes this escape wherever it occurs."""


def seal(text: bytes) -> str:
    """Return the form in which a text is stored, with a checksum."""
    if _NULL in text:
        text = text.replace(_NULL, _NULL_MARK)
    return f"{text.decode()}{_SEAL_TEXT}{_checksum(text)}"


def unseal(stored: bytes) -> bytes:
    """Return a stored text without its checksum."""
    require_plain(stored)
    if not is_sealed(stored):
        raise DamagedSessionError("A stored value is damaged: it has been changed.")
    return stored.rpartition(_SEAL)[0].replace(_NULL_MARK, _NULL)


def is_sealed(stored: bytes) -> bool:
    """Return whether a text ends with its checksum."""
    text, mark, checksum = stored.rpartition(_SEAL)
    return bool(mark) and _checksum(text).encode() == checksum


def _checksum(text: bytes) -> str:
    return blake2b(text, digest_size=8).hexdigest()
