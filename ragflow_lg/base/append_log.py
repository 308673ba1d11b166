"""Lists that can be appended to cheaply when every version is stored.

An `AppendLog` groups entries into blocks. A full block is frozen and never changes again, so a saver stores it once.
Full rows of blocks are frozen in turn, so the part that changes when an entry is added stays small however long the
list gets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias, cast

from ragflow_lg.base.values import JsonValue

BLOCK = 16

AppendLog: TypeAlias = list[list[Any]]
"""Levels: the newest entries, then frozen blocks of entries, then frozen rows of those blocks, …"""


class FrozenList(list[Any]):
    """A list that never changes after its creation, so that a saver can store it once. As JSON, it is a normal list.

    ``digest`` belongs to the saver: the key under which it has stored the list, ``""`` before that.
    """

    __slots__ = ("digest",)

    def __init__(self, entries: Any = ()) -> None:
        super().__init__(entries)
        self.digest = ""


def append_entry(log: AppendLog, value: JsonValue) -> AppendLog:
    """Return the log with one more entry; the argument is not changed."""
    levels = [_freeze_blocks(level, depth) for depth, level in enumerate(log)]
    entry: Any = value
    for depth in range(len(levels) + 1):
        level = [*(levels[depth] if depth < len(levels) else ()), entry]
        levels[depth : depth + 1] = [level]
        if len(level) < BLOCK:
            break
        entry = FrozenList(level)
        levels[depth] = []
    return levels


def _freeze_blocks(level: list[Any], depth: int) -> list[Any]:
    """Freeze the blocks in a level that was loaded from a store, because stores return plain lists."""
    if depth == 0 or all(type(block) is FrozenList for block in level):
        return level
    return [FrozenList(_freeze_blocks(block, depth - 1)) for block in level]


def read_entries(log: AppendLog) -> list[JsonValue]:
    """Return all entries in order.

    >>> read_entries(append_entry(append_entry([], "a"), "b"))
    ['a', 'b']
    """
    entries: list[JsonValue] = []
    for depth in range(len(log) - 1, -1, -1):
        for block in log[depth]:
            entries.extend(_iterate_entries(block, depth))
    return entries


def _iterate_entries(block: Any, depth: int) -> Iterator[JsonValue]:
    if depth == 0:
        yield block
        return
    for part in cast("list[Any]", block):
        yield from _iterate_entries(part, depth - 1)
