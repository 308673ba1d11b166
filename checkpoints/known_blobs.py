"""The blobs that this process knows to be stored, so that it does not write them again.

Forgetting a blob is always safe: it is written once more. In a long conversation, nearly all blobs belong to earlier
turns, so a thread forgets those that no recent write has used.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock, RLock
from typing import Any

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

    __slots__ = ("_older", "_recent", "_writes")

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


REMEMBERED_MAPS = 64
"""How many maps are remembered, over all threads. A run needs one or two at a time."""

_MARKS = (b"\x01", b"\x03")
"""A text with one of these bytes refers to parts that must be stored as well; see `ragflow_lg.checkpoints.codec`."""


class KnownEntries:
    """The entries of the map that was encoded last in each place, with their texts. Several threads may encode maps.

    A map that grows, such as the outputs of nodes, is not encoded as a whole in every step.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._maps: OrderedDict[object, Mapping[Any, tuple[Any, bytes]]] = OrderedDict()

    def encode(self, place: object, value: Mapping[Any, Any], encode: Callable[[Any, Any], bytes]) -> list[bytes]:
        """Return the text of each entry of a map: those that the last map of the place had are not encoded again."""
        known = self._maps.get(place, {})
        entries: dict[Any, tuple[Any, bytes]] = {}
        texts: list[bytes] = []
        for key, part in value.items():
            entry = known.get(key)
            if entry is None or entry[0] is not part or type(key) is not str:
                text = encode(key, part)
                if any(mark in text for mark in _MARKS):
                    texts.append(text)
                    continue
                entry = part, text
            entries[key] = entry
            texts.append(entry[1])
        with self._lock:
            self._maps[place] = entries
            self._maps.move_to_end(place)
            if len(self._maps) > REMEMBERED_MAPS:
                self._maps.popitem(last=False)
        return texts
