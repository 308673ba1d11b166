"""How stored data says that it is encrypted: ``!KEY!`` stands before it, where KEY is the name of the key.

Nothing else that a store has of a session begins with ``!``: it is JSON, or begins with a mark of `codec`.
"""

from __future__ import annotations

import re

from ragflow_lg.base.errors import SessionKeyError

KEY_ID = r"[A-Za-z0-9_.-]{1,32}"
_MARK = re.compile(rb"!(" + KEY_ID.encode() + rb")!")


def write_mark(key: str) -> bytes:
    """Return what stands before data that is encrypted with a key."""
    return b"!" + key.encode() + b"!"


def split_mark(stored: bytes) -> tuple[str, bytes]:
    """Return the name of the key and the encrypted data; the name is ``""`` for data that is not encrypted."""
    mark = _MARK.match(stored) if stored[:1] == b"!" else None
    return (mark[1].decode(), stored[mark.end() :]) if mark else ("", stored)


def require_plain(text: str | bytes) -> None:
    """Raise SessionKeyError if a text is encrypted."""
    if text[:1] in ("!", b"!"):
        raise missing_key(split_mark(text[:64].encode() if isinstance(text, str) else text[:64])[0])


def missing_key(key: str) -> SessionKeyError:
    """Return the error for data whose key is not in the settings."""
    return SessionKeyError(
        f"The data is encrypted with the key {key!r}, which is not among the `encryption_keys` of the settings. Add it"
        " there; it need not be the first one."
    )
