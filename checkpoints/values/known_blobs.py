"""The blobs that this process knows to be stored, so that it does not write them again.

Forgetting a blob is always safe: it is written once more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Set

REMEMBERED_BLOBS = 65_536
"""How many blobs are remembered, over all threads."""


class KnownBlobs:
    """The blobs of all threads, by hash."""

    def __init__(self) -> None:
        self._threads: OrderedDict[str, set[str]] = OrderedDict()
        self._count = 0

    def of_thread(self, thread: str) -> Set[str]:
        """Return the blobs of a thread."""
        return self._threads.get(thread, set())

    def remember(self, thread: str, digests: Collection[str]) -> None:
        """Remember that a thread has these blobs. Threads that were not used lately are forgotten."""
        if not digests:
            return
        known = self._threads.pop(thread, set())
        self._count -= len(known)
        if len(known) >= REMEMBERED_BLOBS:
            known = set[str]()
        known.update(digests)
        self._threads[thread] = known
        self._count += len(known)
        while len(self._threads) > 1 and self._count > REMEMBERED_BLOBS:
            _, forgotten = self._threads.popitem(last=False)
            self._count -= len(forgotten)

    def forget(self, thread: str) -> None:
        """Forget a thread's blobs."""
        self._count -= len(self._threads.pop(thread, ()))
