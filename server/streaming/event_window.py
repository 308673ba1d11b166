"""A bounded run of consecutive entries, the newest ones of a stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from msgspec import Struct

__all__ = ["PAGE", "Bounds", "Entry", "Extent", "Window", "paged"]


class Entry(NamedTuple):
    """One entry of a journal. ``id`` counts from 1 in each run."""

    id: int
    data: bytes


class Bounds(Struct, frozen=True):
    """How much is held at most; always one entry, though."""

    entries: int
    bytes: int


PAGE = Bounds(64, 64 * 1024)
"""What a follower is given at once, and so all that a slow one holds on to."""


class Extent:
    """Which entries of a stream fit its bounds, where the entries themselves are kept elsewhere."""

    def __init__(self, bounds: Bounds, last: int = 0, held: int = 0) -> None:
        """``held`` entries up to ``last`` are there already; how large they are is not known: they count as empty."""
        self._bounds = bounds
        self._sizes: deque[int] = deque([0] * held)
        self._bytes = 0
        self.last = last
        """Id of the newest entry."""

    @property
    def first(self) -> int:
        """Id of the oldest entry that fits; the newest always does."""
        return self.last - len(self._sizes) + 1

    def add(self, size: int) -> None:
        """Add an entry."""
        self.last += 1
        self._sizes.append(size)
        self._bytes += size
        while len(self._sizes) > 1 and (len(self._sizes) > self._bounds.entries or self._bytes > self._bounds.bytes):
            self._bytes -= self._sizes.popleft()


class Window:
    """The newest entries of a stream, as many as the bounds allow."""

    def __init__(self, bounds: Bounds, last: int = 0) -> None:
        """``last`` is the id of the newest entry there was before."""
        self._bounds = bounds
        self._entries: deque[Entry] = deque()
        self.last: int = last
        """Id of the newest entry."""
        self.bytes = 0
        """Size of all data that is held."""

    @property
    def first(self) -> int:
        """Id of the oldest entry that is held; one more than ``last`` where there is none."""
        return self._entries[0].id if self._entries else self.last + 1

    def add(self, entries: Iterable[Entry]) -> None:
        """Add newer entries. What is known already is passed over; behind a hole nothing older is held any more."""
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
        """Let go of the oldest entry, unless it is the only one; give its size."""
        if len(self._entries) < 2:
            return 0
        size = len(self._entries.popleft().data)
        self.bytes -= size
        return size

    def page(self, after: int) -> list[Entry] | None:
        """Give the entries behind ``after``, no more than `PAGE`; None where some of them are held no longer."""
        if after >= self.last:
            return []
        if after + 1 < self.first:
            return None
        return paged(islice(self._entries, after + 1 - self.first, None))


def paged(entries: Iterable[Entry]) -> list[Entry]:
    """Give no more of the entries than `PAGE`, but one at least if there is one."""
    found: list[Entry] = []
    size = 0
    for entry in entries:
        size += len(entry.data)
        if found and (size > PAGE.bytes or len(found) == PAGE.entries):
            break
        found.append(entry)
    return found
