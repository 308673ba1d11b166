"""The names under which sessions and files of the visitors of embedded pages are stored."""

from __future__ import annotations

import hashlib

from ragflow_lg.server.database.tables import ID_CHARS

_MARK = "v"
"""What the name of a visitor with a secret begins with. Ids of keys, which are hexadecimal, do not."""


def name_visitor(key_id: str, secret: str) -> str:
    """Return the name of the visitor with a secret: a digest, from which the secret cannot be found."""
    digest = hashlib.sha256(f"{key_id}\0{secret}".encode()).hexdigest()
    return _MARK + digest[: ID_CHARS - len(_MARK)]


def has_secret(visitor: str) -> bool:
    """Return whether a visitor is known by a secret. All others of a page have the id of its key as their name."""
    return visitor.startswith(_MARK)
