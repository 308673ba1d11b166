"""The keys with which stored data is encrypted."""

from __future__ import annotations

from msgspec import Struct

KEY_BYTES = 32


class EncryptionKey(Struct, frozen=True):
    """A key and the name by which stored data refers to it."""

    id: str
    secret: bytes
    """`KEY_BYTES` random bytes."""

    def __repr__(self) -> str:
        """Return the name alone: keys must not get into logs."""
        return f"EncryptionKey({self.id!r})"
