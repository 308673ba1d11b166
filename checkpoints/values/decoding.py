"""Values of stored texts; see `ragflow_lg.checkpoints.values.encoding`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import orjson

from ragflow_lg.base.errors import DamagedSessionError
from ragflow_lg.checkpoints.values.marks import MARK, MARK_BYTES, find_digests
from ragflow_lg.checkpoints.values.seals import unseal

MAX_EXPANDED_BYTES = 512 * 1024 * 1024
MAX_NESTING = 64

FindBlobs = Callable[[Sequence[str]], Awaitable[Mapping[str, bytes]]]
"""Returns the existing blobs, by hash."""


async def decode(text: str, find: FindBlobs) -> Any:
    """Return the value that a text encodes.

    Raises:
        CheckpointError: if the text is damaged, or a blob is missing.
    """
    expanded = await _expand(unseal(text.encode()), find)
    try:
        return orjson.loads(expanded)
    except ValueError as error:
        raise DamagedSessionError(f"A stored value cannot be read: {error}.") from None


async def _expand(text: bytes, find: FindBlobs) -> bytes:
    """Return a text with its marks replaced by what they stand for."""
    known: dict[str, bytes] = {}
    for _ in range(MAX_NESTING):
        marks = find_digests(text)
        if not marks:
            return text
        if missing := sorted(set(marks) - known.keys()):
            known.update(await find(missing))
        for digest in missing:
            if digest not in known:
                raise DamagedSessionError(f"A stored value is incomplete: part {digest} is missing.")
        size = len(text) + sum(len(known[digest]) - MARK_BYTES for digest in marks)
        if size > MAX_EXPANDED_BYTES:
            raise DamagedSessionError(f"A stored value is larger than {MAX_EXPANDED_BYTES:,} bytes.")
        text = MARK.sub(lambda mark: known[mark[1].decode()], text)
    raise DamagedSessionError("A stored value is nested too deeply.")
