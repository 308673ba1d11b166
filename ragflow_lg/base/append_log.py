"""A growing list, kept so that storing it after every entry costs little.

Entries are gathered in blocks; a full block is sealed and never changes again, so a saver stores it once.
Full rows of blocks are sealed in turn: what changes with an entry stays small, however long the list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias, cast

from ragflow_lg.base.frozen_list import FrozenList
from ragflow_lg.base.values import JsonValue

__all__ = ["Collected", "append_entry", "entries_of"]

BLOCK = 16

Collected: TypeAlias = list[list[Any]]
"""Levels: the newest entries, then sealed blocks of entries, then sealed rows of those blocks, …"""


def append_entry(collected: Collected, value: JsonValue) -> Collected:
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


def entries_of(collected: Collected) -> list[JsonValue]:
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
