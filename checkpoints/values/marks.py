"""The marks in stored texts, which stand for parts that are stored elsewhere.

Marks are bytes that never occur in JSON text, so no data looks like a mark. A part is stored under the hash of its
text, as a *blob*, and its mark contains the hash.
"""

from __future__ import annotations

import hashlib
import re

MARK = re.compile(rb"\x01([0-9a-f]{32})\x01")
MARK_BYTES = 34


def blob_digest(text: bytes) -> str:
    """Return the hash of a blob."""
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def blob_mark(digest: str) -> bytes:
    """Return the mark of a blob."""
    return b"\x01" + digest.encode() + b"\x01"


def find_digests(text: bytes) -> list[str]:
    """Return the hashes of the blobs that a text refers to."""
    return [mark.decode() for mark in MARK.findall(text)]
