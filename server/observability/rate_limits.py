"""Rate limits: one evenly refilled token bucket per client, for a bounded number of clients."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

__all__ = ["RateLimiter"]

MAX_CLIENTS = 10_000
"""How many clients are remembered; the least recent one is dropped and restarts with a full bucket."""


class RateLimiter:
    """Counts the requests of each client."""

    def __init__(self, per_minute: int, now: Callable[[], float], max_clients: int = MAX_CLIENTS) -> None:
        """Initialize; ``now`` returns monotonic seconds, ``per_minute`` 0 disables the limit."""
        self._per_minute = per_minute
        self._now = now
        self._max_clients = max_clients
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, client: str) -> float:
        """Count a request; return 0 if it is allowed, else how many seconds it is too early."""
        if not self._per_minute:
            return 0.0
        now, rate = self._now(), self._per_minute / 60
        tokens, at = self._buckets.pop(client, (float(self._per_minute), now))
        tokens = min(tokens + (now - at) * rate, float(self._per_minute))
        passes = tokens >= 1
        self._buckets[client] = (tokens - 1 if passes else tokens, now)
        if len(self._buckets) > self._max_clients:
            self._buckets.popitem(last=False)
        return 0.0 if passes else (1 - tokens) / rate
