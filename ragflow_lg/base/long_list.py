"""Lists that grow with a conversation and are stored in blocks.

A `LongList` never changes: `extend_list` returns a new one, which shares its blocks with the old one. Eight entries
form a block, eight blocks form a larger block, and so on. A saver stores each block once, and reads a block only when
its entries are needed, so that a turn costs the same however long the conversation is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, cast, overload

BLOCK = 8
"""Entries per block, and blocks per larger block."""


class Block:
    """``BLOCK ** level`` entries."""

    __slots__ = ("content", "digest", "level")

    def __init__(self, level: int, content: list[Any] | None, digest: str = "") -> None:
        self.level = level
        self.content = content
        """The entries on level 1, smaller blocks on all others; None if they have not been read."""
        self.digest = digest
        """The key under which a saver has stored the block; ``""`` before that."""

    def __len__(self) -> int:
        return BLOCK**self.level


class LongList(Sequence[Any]):
    """A list of which only the last entries may have been read from the store.

    Reading other entries raises LookupError.
    """

    __slots__ = ("blocks", "mark", "measured", "tail", "thread")

    def __init__(
        self, blocks: Sequence[Block], tail: Sequence[Any], thread: str = "", measured: tuple[int, int] = (0, 0)
    ) -> None:
        self.blocks = blocks
        """Full blocks, oldest and largest first: less than `BLOCK` of each level."""
        self.tail = tail
        """The entries after the last full block."""
        self.thread = thread
        """The thread whose blocks a saver reads."""
        self.measured = measured
        """A number of first entries, and the length of their JSON text in bytes including a comma after each."""
        self.mark = b""
        """The text for which a saver has stored the list; empty before that."""

    def __len__(self) -> int:
        return sum(map(len, self.blocks)) + len(self.tail)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        length = len(self)
        if isinstance(index, int):
            if not -length <= index < length:
                raise IndexError(index)
            return self.last(length - index if index >= 0 else -index)[0]
        start, stop, step = index.indices(length)
        first = min(start, length) if step > 0 else 0
        return self.last(length - first)[start - first : stop - first : step] if step > 0 else list(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LongList | list) and list(self) == list(cast("Iterable[Any]", other))

    def last(self, count: int) -> list[Any]:
        """Return the last ``count`` entries, or all if there are fewer.

        Raises:
            LookupError: if some of them have not been read.
        """
        if self.missing(count):
            raise LookupError(f"The last {count} of {len(self)} entries have not all been read from the store.")
        parts: list[Sequence[Any]] = [self.tail]
        _collect(self.blocks, count - len(self.tail), parts)
        entries = [entry for part in reversed(parts) for entry in part]
        return entries[max(len(entries) - count, 0) :]

    def missing(self, count: int) -> list[Block]:
        """Return the blocks that must be read next before `last` can return ``count`` entries."""
        unread: list[Block] = []
        _find_unread(self.blocks, count - len(self.tail), unread)
        return unread

    def extended(self, entries: Iterable[Any]) -> LongList:
        """Return the list with more entries."""
        blocks, tail = list(self.blocks), list(self.tail)
        for entry in entries:
            tail.append(entry)
            if len(tail) < BLOCK:
                continue
            blocks.append(Block(1, tail))
            tail = []
            while len(blocks) >= BLOCK and blocks[-BLOCK].level == blocks[-1].level:
                blocks[-BLOCK:] = [Block(blocks[-1].level + 1, blocks[-BLOCK:])]
        return LongList(blocks, tail, self.thread, self.measured)


GrowingList: TypeAlias = "list[Any] | LongList"


def extend_list(current: GrowingList | None, entries: Iterable[Any]) -> GrowingList:
    """Return a list with more entries; the argument is not changed.

    >>> extend_list([1], [2])
    [1, 2]
    """
    return current.extended(entries) if isinstance(current, LongList) else [*(current or ()), *entries]


def _collect(blocks: Sequence[Block], count: int, parts: list[Sequence[Any]]) -> None:
    """Add the contents of the last blocks, newest first, until they contain ``count`` entries."""
    for block in reversed(blocks):
        if count <= 0:
            return
        content = block.content or ()
        if block.level == 1:
            parts.append(content)
        else:
            _collect(cast("list[Block]", content), count, parts)
        count -= len(block)


def _find_unread(blocks: Sequence[Block], count: int, unread: list[Block]) -> None:
    for block in reversed(blocks):
        if count <= 0:
            return
        if block.content is None:
            unread.append(block)
        elif block.level > 1:
            _find_unread(cast("list[Block]", block.content), count, unread)
        count -= len(block)
