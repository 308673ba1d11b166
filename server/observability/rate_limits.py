"""How often somebody may ask: a bucket that is filled evenly, for each of a bounded number of askers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

__all__ = ["Rates"]

MAX_ASKERS = 10_000
"""So many are remembered; who has not asked for longest is forgotten, and begins anew with a full bucket."""


class Rates:
    """Counts the requests of every asker."""

    def __init__(self, per_minute: int, now: Callable[[], float], max_askers: int = MAX_ASKERS) -> None:
        """``now`` gives seconds that only grow; ``per_minute`` 0 lets everything pass."""
        self._per_minute = per_minute
        self._now = now
        self._max_askers = max_askers
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, asker: str) -> float:
        """Count a request; give 0 if it may pass, else how many seconds it comes too early."""
        if not self._per_minute:
            return 0.0
        now, rate = self._now(), self._per_minute / 60
        left, at = self._buckets.pop(asker, (float(self._per_minute), now))
        left = min(left + (now - at) * rate, float(self._per_minute))
        passes = left >= 1
        self._buckets[asker] = (left - 1 if passes else left, now)
        if len(self._buckets) > self._max_askers:
            self._buckets.popitem(last=False)
        return 0.0 if passes else (1 - left) / rate
