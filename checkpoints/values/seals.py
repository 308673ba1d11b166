"""The checksums of stored texts."""

from __future__ import annotations

from hashlib import blake2b

from ragflow_lg.base.errors import DamagedSessionError
from ragflow_lg.checkpoints.key_ring import require_plain

_SEAL, _SEAL_TEXT = b"\x04", "\x04"
"""Separates a text from its checksum."""


def seal(text: bytes) -> str:
    """Return the form in which a text is stored, with a checksum."""
    return f"{text.decode()}{_SEAL_TEXT}{_checksum(text)}"


def unseal(stored: bytes) -> bytes:
    """Return a stored text without its checksum."""
    require_plain(stored)
    if not is_sealed(stored):
        raise DamagedSessionError("A stored value is damaged: it has been changed.")
    return stored.rpartition(_SEAL)[0]


def is_sealed(stored: bytes) -> bool:
    """Return whether a text ends with its checksum."""
    text, mark, checksum = stored.rpartition(_SEAL)
    return bool(mark) and _checksum(text).encode() == checksum


def _checksum(text: bytes) -> str:
    return blake2b(text, digest_size=8).hexdigest()
