"""The blobs that this process knows to be stored, so that it does not write them again.

Forgetting a blob is always safe: it is written once more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Set

REMEMBERED_BLOBS = 65_536
"""How many blobs are remembered, over all threads."""


class KnownBlobs:
    """The blobs of all threads, by hash."""

    def __init__(self) -> None:
        self._threads: OrderedDict[str, set[str]] = OrderedDict()

    def of_thread(self, thread: str) -> Set[str]:
        """Return the blobs of a thread."""
        return self._threads.get(thread, set())

    def remember(self, thread: str, digests: Iterable[str]) -> None:
        """Remember that a thread has these blobs. Threads that were not used lately are forgotten."""
        known = self._threads.pop(thread, set())
        if len(known) >= REMEMBERED_BLOBS:
            known = set[str]()
        known.update(digests)
        self._threads[thread] = known
        while len(self._threads) > 1 and sum(map(len, self._threads.values())) > REMEMBERED_BLOBS:
            self._threads.popitem(last=False)

    def forget(self, thread: str) -> None:
        """Forget a thread's blobs."""
        self._threads.pop(thread, None)
