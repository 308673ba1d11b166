"""The marks in stored texts, which stand for parts that are stored elsewhere.

Marks are bytes that never occur in JSON text, so no data looks like a mark. A part is stored under the hash of its
text, as a *blob*, and its mark contains the hash. A list mark also contains the number of entries and the length of the
list's JSON text; see `ragflow_lg.checkpoints.values.stored_lists`.
"""

from __future__ import annotations

import hashlib
import re

MARK = re.compile(rb"\x01([0-9a-f]{32})\x01")
MARK_BYTES = 34
LIST_MARK = re.compile(rb"\x03([0-9a-f]{32}),(\d{1,12}),(\d{1,12})\x03")


def blob_digest(text: bytes) -> str:
    """Return the hash of a blob."""
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def blob_mark(digest: str) -> bytes:
    """Return the mark of a blob."""
    return b"\x01" + digest.encode() + b"\x01"


def list_mark(digest: str, count: int, size: int) -> bytes:
    """Return the mark of a list whose JSON text has ``size`` bytes."""
    return b"\x03%b,%d,%d\x03" % (digest.encode(), count, size)


def find_digests(text: bytes) -> list[str]:
    """Return the hashes of the blobs that a text refers to."""
    # Looking for one byte is much faster than a regular expression.
    lists = [mark.decode() for mark, _, _ in LIST_MARK.findall(text)] if b"\x03" in text else []
    return lists + find_marks(text)


def find_marks(text: bytes) -> list[str]:
    """Return the hashes in the marks of a text, but not those of its long lists."""
    return [mark.decode() for mark in MARK.findall(text)] if b"\x01" in text else []


def unread_bytes(text: bytes) -> int:
    """Return by how much the text's long lists are longer than their marks."""
    return sum(int(mark[3]) - len(mark[0]) for mark in LIST_MARK.finditer(text)) if b"\x03" in text else 0
