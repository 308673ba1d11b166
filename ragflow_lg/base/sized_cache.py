"""A cache of the values that were used last, up to a total size."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SizedCache(Generic[K, V]):
    """Values by key. Those that were used least recently are removed. Several threads may use it."""

    def __init__(self, max_size: int) -> None:
        """Initialize. ``max_size`` is the total size of all values, in the unit of `put`."""
        self._max_size = max_size
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """Return the value of a key, which has then been used last, or None."""
        with self._lock:
            if (entry := self._values.get(key)) is None:
                return None
            self._values.move_to_end(key)
            return entry[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Keep a value, and remove others until all fit. The newest one always stays."""
        with self._lock:
            _, before = self._values.pop(key, (None, 0))
            self._size += size - before
            while self._values and self._size > self._max_size:
                _, (_, removed) = self._values.popitem(last=False)
                self._size -= removed
            self._values[key] = value, size
