"""Bounded windows of consecutive entries: the newest ones of a stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from msgspec import Struct


class Entry(NamedTuple):
    """One entry of a journal. ``id`` counts from 1 in each run."""

    id: int
    data: bytes


class Bounds(Struct, frozen=True):
    """Upper limits of a window, which always keeps at least one entry."""

    entries: int
    bytes: int


PAGE = Bounds(64, 64 * 1024)
"""Largest page a follower receives, and therefore all that a slow follower holds."""


class Extent:
    """Which entries of a stream fit its bounds, when the entries themselves are stored elsewhere."""

    def __init__(self, bounds: Bounds, last: int = 0, count: int = 0) -> None:
        """Start with ``count`` stored entries up to ``last``. Their sizes are unknown and count as 0."""
        self._bounds = bounds
        self._sizes: deque[int] = deque([0] * count)
        self._bytes = 0
        self.last = last
        """Id of the newest entry."""

    @property
    def first(self) -> int:
        """Id of the oldest entry that fits; the newest always fits."""
        return self.last - len(self._sizes) + 1

    def add(self, size: int) -> None:
        """Add an entry of ``size`` bytes."""
        self.last += 1
        self._sizes.append(size)
        self._bytes += size
        while len(self._sizes) > 1 and (len(self._sizes) > self._bounds.entries or self._bytes > self._bounds.bytes):
            self._bytes -= self._sizes.popleft()


class Window:
    """The newest entries of a stream within the bounds."""

    def __init__(self, bounds: Bounds, last: int = 0) -> None:
        """Start empty; ``last`` is the id of the newest entry before the window."""
        self._bounds = bounds
        self._entries: deque[Entry] = deque()
        self.last: int = last
        """Id of the newest entry."""
        self.bytes = 0
        """Size of all data in the window."""

    @property
    def first(self) -> int:
        """Id of the oldest entry in the window; ``last + 1`` if it is empty."""
        return self._entries[0].id if self._entries else self.last + 1

    def add(self, entries: Iterable[Entry]) -> None:
        """Add newer entries. Known ids are skipped; a gap in the ids drops everything older."""
        for entry in entries:
            if entry.id <= self.last:
                continue
            if entry.id != self.last + 1:
                self._entries.clear()
                self.bytes = 0
            self._entries.append(entry)
            self.last = entry.id
            self.bytes += len(entry.data)
        while len(self._entries) > self._bounds.entries or self.bytes > self._bounds.bytes:
            if not self.drop():
                return

    def drop(self) -> int:
        """Drop the oldest entry unless it is the only one; return its size, or 0."""
        if len(self._entries) < 2:
            return 0
        size = len(self._entries.popleft().data)
        self.bytes -= size
        return size

    def page(self, after: int) -> list[Entry] | None:
        """Return up to one `PAGE` of the entries after ``after``; None if some of them have been dropped."""
        if after >= self.last:
            return []
        if after + 1 < self.first:
            return None
        return first_page(islice(self._entries, after + 1 - self.first, None))


def first_page(entries: Iterable[Entry]) -> list[Entry]:
    """Return the first entries up to one `PAGE`, but at least one if there is any."""
    page: list[Entry] = []
    size = 0
    for entry in entries:
        size += len(entry.data)
        if page and (size > PAGE.bytes or len(page) == PAGE.entries):
            break
        page.append(entry)
    return page
