"""Replacing the marks in stored texts by the parts that they stand for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from ragflow_lg.base.errors import DamagedSessionError
from ragflow_lg.checkpoints.values.marks import LIST_MARK, MARK, MARK_BYTES, blob_mark, find_marks

MAX_EXPANDED_BYTES = 512 * 1024 * 1024
MAX_NESTING = 64

FindBlobs = Callable[[Sequence[str]], Awaitable[Mapping[str, bytes]]]
"""Returns the existing blobs, by hash."""


async def expand(text: bytes, find: FindBlobs, *, has_lists: bool = True) -> bytes:
    """Return a text with its marks replaced by what they stand for; without ``has_lists``, list marks are kept.

    Raises:
        CheckpointError: if a blob is missing, or the text is too large or too deep.
    """
    known: dict[str, bytes] = {}
    for _ in range(MAX_NESTING):
        if has_lists and b"\x03" in text:
            text = LIST_MARK.sub(lambda mark: b"[" + blob_mark(mark[1].decode()) + b"]", text)
        marks = find_marks(text)
        if not marks:
            return text
        if missing := sorted(set(marks) - known.keys()):
            known.update(await find_all(missing, find))
        size = len(text) + sum(len(known[digest]) - MARK_BYTES for digest in marks)
        if size > MAX_EXPANDED_BYTES:
            raise DamagedSessionError(f"A stored value is larger than {MAX_EXPANDED_BYTES:,} bytes.")
        text = _fill_marks(known, text)
    raise DamagedSessionError("A stored value is nested too deeply.")


async def find_all(digests: Sequence[str], find: FindBlobs) -> Mapping[str, bytes]:
    """Return blobs, by hash. Raise DamagedSessionError if one is missing."""
    found = await find(digests)
    for digest in digests:
        if digest not in found:
            raise DamagedSessionError(f"A stored value is incomplete: part {digest} is missing.")
    return found


def _fill_marks(known: Mapping[str, bytes], text: bytes) -> bytes:
    return MARK.sub(lambda mark: known[mark[1].decode()], text)
