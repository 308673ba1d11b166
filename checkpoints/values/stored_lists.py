"""The stored form of long lists: a mark in the value, a head with the newest entries, and blocks.

A list mark contains the hash of the head, the number of entries and the length of the whole JSON text. The head is the
inside of a JSON list: the marks of all full blocks, then the remaining entries. A block is stored in the same way, so a
reader of the whole list only has to replace each mark by its text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, cast

import orjson

from ragflow_lg.base.errors import DamagedSessionError
from ragflow_lg.base.long_list import BLOCK, Block, LongList
from ragflow_lg.checkpoints.values.expansion import FindBlobs, expand, find_all
from ragflow_lg.checkpoints.values.marks import LIST_MARK, MARK_BYTES


class UnreadBlockError(Exception):
    """A block must be stored for a thread that does not have it, and has to be read first."""

    def __init__(self, entries: LongList) -> None:
        super().__init__("A block of a long list has not been read.")
        self.entries = entries


def find_lists(text: bytes, names: Collection[str]) -> dict[str, re.Match[bytes]]:
    """Return the list marks in a text that may stay unread, by name; ``""`` stands for the whole value.

    The text has no other marks. A mark belongs to an entry of a map if it follows the entry's name.
    """
    if "" in names and (whole := LIST_MARK.fullmatch(text)):
        return {"": whole}
    found: dict[str, re.Match[bytes]] = {}
    for name in filter(None, names):
        pattern = re.escape(orjson.dumps(name) + b":") + b"(?=\x03)"
        matches = list(re.finditer(pattern, text))
        mark = LIST_MARK.match(text, matches[0].end()) if len(matches) == 1 else None
        if mark is not None:
            found[name] = mark
    return found


async def read_list(mark: re.Match[bytes], thread: str, find: FindBlobs) -> LongList:
    """Return the list for a mark, with its newest entries. Its blocks are unread."""
    digest, count, size = mark[1].decode(), int(mark[2]), int(mark[3])
    head = (await find_all([digest], find))[digest]
    levels = _levels(count)
    digests, rest = _split_marks(head, len(levels))
    tail = await _read_entries(rest, find)
    if len(tail) != count % BLOCK:
        raise DamagedSessionError(f"A stored list is damaged: part {digest} has the wrong length.")
    blocks = [Block(level, None, block) for level, block in zip(levels, digests, strict=True)]
    return LongList(blocks, tail, thread, (count, size))


async def read_blocks(entries: LongList, count: int, find: FindBlobs) -> None:
    """Read the blocks that contain the last ``count`` entries of a list."""
    while unread := entries.missing(count):
        texts = await find_all([block.digest for block in unread], find)
        for block in unread:
            text = texts[block.digest]
            if block.level > 1:
                digests, _ = _split_marks(text, BLOCK)
                block.content = [Block(block.level - 1, None, digest) for digest in digests]
            else:
                block.content = await _read_entries(text, find)
            if len(block.content) != BLOCK:
                raise DamagedSessionError(f"A stored list is damaged: part {block.digest} has the wrong length.")


def block_digests(blocks: Iterable[Block]) -> Iterable[str]:
    """Yield the hashes of stored blocks, including the smaller blocks in those that have been read."""
    for block in blocks:
        if block.digest:
            yield block.digest
        if block.level > 1 and block.content is not None:
            yield from block_digests(cast("list[Block]", block.content))


def _levels(count: int) -> list[int]:
    """Return the levels of a list's blocks, oldest first."""
    levels: list[int] = []
    level, rest = 1, count // BLOCK
    while rest:
        levels[:0] = [level] * (rest % BLOCK)
        level, rest = level + 1, rest // BLOCK
    return levels


def _split_marks(text: bytes, count: int) -> tuple[list[str], bytes]:
    """Return the hashes in the ``count`` marks at the beginning of a text, and the rest of the text."""
    width = MARK_BYTES + 1  # with a comma
    marks = [text[start : start + MARK_BYTES] for start in range(0, count * width, width)]
    if not all(len(mark) == MARK_BYTES and mark[:1] == mark[-1:] == b"\x01" for mark in marks):
        raise DamagedSessionError("A stored list is damaged: its blocks are missing.")
    return [mark[1:-1].decode("ascii", "replace") for mark in marks], text[count * width :]


async def _read_entries(text: bytes, find: FindBlobs) -> list[Any]:
    try:
        entries = orjson.loads(b"[" + await expand(text, find) + b"]")
    except ValueError as error:
        raise DamagedSessionError(f"A stored list cannot be read: {error}.") from None
    return cast("list[Any]", entries)
