"""A growing list, kept so that storing it after every entry costs little.

Entries are gathered in blocks; a full block is sealed and never changes again, so a saver stores it once.
Full rows of blocks are sealed in turn: what changes with an entry stays small, however long the list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias, cast

from ragflow_lg.base.values import JsonValue

__all__ = ["FrozenList", "AppendLog", "append_entry", "read_entries"]

BLOCK = 16

AppendLog: TypeAlias = list[list[Any]]
"""Levels: the newest entries, then sealed blocks of entries, then sealed rows of those blocks, …"""


class FrozenList(list[Any]):
    """A list that whoever made it will never change. JSON like any other list.

    ``digest`` is for the saver: the key under which it has stored the list, ``""`` before.
    """

    __slots__ = ("digest",)

    def __init__(self, entries: Any = ()) -> None:
        super().__init__(entries)
        self.digest = ""


def append_entry(collected: AppendLog, value: JsonValue) -> AppendLog:
    """Give the list with one more entry; the given one is not changed."""
    levels = [_resealed(level, depth) for depth, level in enumerate(collected)]
    entry: Any = value
    for depth in range(len(levels) + 1):
        level = [*(levels[depth] if depth < len(levels) else ()), entry]
        levels[depth : depth + 1] = [level]
        if len(level) < BLOCK:
            break
        entry = FrozenList(level)
        levels[depth] = []
    return levels


def _resealed(level: list[Any], depth: int) -> list[Any]:
    """Seal the blocks of a level that comes from a store, which gives plain lists."""
    if depth == 0 or all(type(block) is FrozenList for block in level):
        return level
    return [FrozenList(_resealed(block, depth - 1)) for block in level]


def read_entries(collected: AppendLog) -> list[JsonValue]:
    """Give all entries in order.

    >>> entries_of(append_entry(append_entry([], "a"), "b"))
    ['a', 'b']
    """
    entries: list[JsonValue] = []
    for depth in range(len(collected) - 1, -1, -1):
        for block in collected[depth]:
            entries.extend(_leaves(block, depth))
    return entries


def _leaves(block: Any, depth: int) -> Iterator[JsonValue]:
    if depth == 0:
        yield block
        return
    for part in cast("list[Any]", block):
        yield from _leaves(part, depth - 1)
