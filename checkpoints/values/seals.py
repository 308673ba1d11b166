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


def unseal(stored: bytes, *, must_be_sealed: bool) -> bytes:
    """Return a stored text without its checksum, which texts of version 0.1.0 do not have."""
    require_plain(stored)
    text, mark, _ = stored.rpartition(_SEAL)
    if not mark and not must_be_sealed:
        text = stored
    elif _with_checksum(text) != stored:
        raise DamagedSessionError("A stored value is damaged: it has been changed.")
    return text.replace(_NULL_MARK, _NULL)


def is_sealed(stored: bytes) -> bool:
    """Return whether a text ends with its checksum."""
    text, mark, _ = stored.rpartition(_SEAL)
    return bool(mark) and _with_checksum(text) == stored


def _with_checksum(text: bytes) -> bytes:
    return text + _SEAL + _checksum(text).encode()


def _checksum(text: bytes) -> str:
    return blake2b(text, digest_size=8).hexdigest()
