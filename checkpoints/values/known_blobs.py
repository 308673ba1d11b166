"""The blobs that this process knows to be stored, so that it does not write them again.

Forgetting a blob is always safe: it is written once more. In a long conversation, nearly all blobs belong to earlier
turns, so a thread forgets those that no recent write has used.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from threading import RLock

from ragflow_lg.checkpoints.values.expansion import MAX_NESTING
from ragflow_lg.checkpoints.values.marks import MARK_BYTES, find_marks, unread_bytes

REMEMBERED_BLOBS = 65_536
"""How many blobs are remembered, over all threads."""

RECENT_BLOBS = 1024
RECENT_WRITES = 64
"""A thread forgets blobs that have not been used in this many writes, but only if it has more than `RECENT_BLOBS`."""

_moving = RLock()
"""Held while blobs move between generations: long values are encoded in threads of the process."""


class ThreadBlobs:
    """The blobs of one thread: the length of each with all marks expanded, by hash.

    There are two generations. Using a blob moves it to the younger one; from time to time, the older one is dropped.
    """

    def __init__(self) -> None:
        self._recent: dict[str, int] = {}
        self._older: dict[str, int] = {}
        self._writes = 0

    def __len__(self) -> int:
        return len(self._recent) + len(self._older)

    def use(self, digest: str) -> int | None:
        """Return the size of a blob, and note that it is in use. Return None if it is unknown."""
        if (size := self._recent.get(digest)) is None and digest in self._older:
            with _moving:
                size = self._older.pop(digest, None)
                if size is None:  # another thread has moved it
                    return self._recent.get(digest)
                self._recent[digest] = size
        return size

    def add(self, digest: str, size: int) -> None:
        """Remember a blob. A size that is known is kept."""
        if self.use(digest) is None:
            self._recent[digest] = size
        if len(self._recent) > REMEMBERED_BLOBS // 2:
            self._drop_older()

    def end_write(self) -> None:
        """Note the end of a write; from time to time, forget what is not in use any more."""
        self._writes += 1
        if self._writes >= RECENT_WRITES and len(self._recent) >= RECENT_BLOBS:
            self._drop_older()

    def _drop_older(self) -> None:
        self._older, self._recent, self._writes = self._recent, {}, 0


class KnownBlobs:
    """The blobs of all threads."""

    def __init__(self) -> None:
        self._threads: OrderedDict[str, ThreadBlobs] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def of_thread(self, thread: str) -> ThreadBlobs:
        """Return a thread's blobs. Only this class adds blobs to them."""
        blobs = self._threads.get(thread)
        return blobs if blobs is not None else ThreadBlobs()

    def remember(self, thread: str, sizes: Mapping[str, int]) -> None:
        """Remember that a thread has these blobs."""
        blobs = self._threads.setdefault(thread, ThreadBlobs())
        self._threads.move_to_end(thread)
        with _moving:
            before = len(blobs)
            for digest, size in sizes.items():
                blobs.add(digest, size)
            self._count += len(blobs) - before
        while self._count > REMEMBERED_BLOBS and len(self._threads) > 1:
            self._count -= len(self._threads.popitem(last=False)[1])

    def remember_texts(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Remember that a thread has these blobs, with their sizes."""
        self.remember(thread, _expanded_sizes(blobs, self.of_thread(thread)))

    def end_write(self, thread: str) -> None:
        """Note the end of a write to a thread."""
        if (blobs := self._threads.get(thread)) is not None:
            with _moving:
                before = len(blobs)
                blobs.end_write()
                self._count += len(blobs) - before

    def forget(self, thread: str) -> None:
        """Forget a thread's blobs."""
        self._count -= len(self._threads.pop(thread, ()))


def _expanded_sizes(blobs: Mapping[str, bytes], known: ThreadBlobs) -> dict[str, int]:
    """Return the expanded sizes of blobs. The parts of each blob are among ``blobs`` or in ``known``."""
    blob_sizes: dict[str, int] = {}

    def size(digest: str, depth: int) -> int:
        if (known_size := blob_sizes.get(digest, known.use(digest))) is not None:
            return known_size
        text = blobs.get(digest)
        if text is None or depth > MAX_NESTING:
            return 0
        inner = unread_bytes(text)
        inner += sum(size(part, depth + 1) - MARK_BYTES for part in find_marks(text))
        blob_sizes[digest] = len(text) + inner
        return blob_sizes[digest]

    for digest in blobs:
        size(digest, 0)
    return blob_sizes
