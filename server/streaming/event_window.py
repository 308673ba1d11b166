"""Bounded windows of consecutive entries, which contain a stream's newest ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from msgspec import Struct


class Entry(NamedTuple):
    """One entry in a journal. ``id`` counts from 1 in each run."""

    id: int
    data: bytes


class Bounds(Struct, frozen=True):
    """Upper limits for a window, which always keeps at least one entry."""

    entries: int
    bytes: int


PAGE = Bounds(64, 64 * 1024)
"""Maximum page size for followers, and therefore also the most that a slow follower keeps in memory."""


class Extent:
    """Determines which entries in a stream are within its bounds when the entries themselves are stored elsewhere."""

    def __init__(self, bounds: Bounds, last: int = 0, count: int = 0) -> None:
        """Start with ``count`` stored entries up to ``last``. Their sizes are unknown and counted as 0."""
        self._bounds = bounds
        self._sizes: deque[int] = deque([0] * count)
        self._bytes = 0
        self.last = last
        """The newest entry's id."""

    @property
    def first(self) -> int:
        """Id of the oldest entry within the bounds. The newest one always is."""
        return self.last - len(self._sizes) + 1

    def add(self, size: int) -> None:
        """Add an entry of ``size`` bytes."""
        self.last += 1
        self._sizes.append(size)
        self._bytes += size
        while len(self._sizes) > 1 and (len(self._sizes) > self._bounds.entries or self._bytes > self._bounds.bytes):
            self._bytes -= self._sizes.popleft()


class Window:
    """A stream's newest entries within the bounds."""

    def __init__(self, bounds: Bounds, last: int = 0) -> None:
        """Start empty. ``last`` is the id of the newest entry before the window."""
        self._bounds = bounds
        self._entries: deque[Entry] = deque()
        self.last: int = last
        """The newest entry's id."""
        self.bytes = 0
        """Total size of the data in the window."""

    @property
    def first(self) -> int:
        """Id of the oldest entry in the window, or ``last + 1`` if it is empty."""
        return self._entries[0].id if self._entries else self.last + 1

    def add(self, entries: Iterable[Entry]) -> None:
        """Add newer entries. Known ids are skipped. If there is a gap in the ids, everything older is dropped."""
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
        """Drop the oldest entry unless it is the only one. Return its size, or 0."""
        if len(self._entries) < 2:
            return 0
        size = len(self._entries.popleft().data)
        self.bytes -= size
        return size

    def page(self, after: int) -> list[Entry] | None:
        """Return up to one `PAGE` of entries after ``after``, or None if some of them have been dropped."""
        if after >= self.last:
            return []
        if after + 1 < self.first:
            return None
        return first_page(islice(self._entries, after + 1 - self.first, None))


def first_page(entries: Iterable[Entry]) -> list[Entry]:
    """Return the first entries, up to one `PAGE`, but at least one if there are any."""
    page: list[Entry] = []
    size = 0
    for entry in entries:
        size += len(entry.data)
        if page and (size > PAGE.bytes or len(page) == PAGE.entries):
            break
        page.append(entry)
    return page
