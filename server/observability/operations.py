"""Limits, metrics and spans for one process."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from ragflow_lg.server.observability.metrics import Metrics
from ragflow_lg.server.observability.request_spans import RequestSpans
from ragflow_lg.server.observability.run_slots import RunSlots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragflow_lg.runs.callbacks import RunCallbacks
    from ragflow_lg.server.settings import ServerSection

MAX_CLIENTS = 10_000
"""How many clients are remembered. The least recent one is dropped and starts again with a full bucket."""


class RateLimiter:
    """Counts each client's requests."""

    def __init__(self, per_minute: int, now: Callable[[], float], max_clients: int = MAX_CLIENTS) -> None:
        """Initialize. ``now`` returns monotonic seconds; a ``per_minute`` of 0 disables the limit."""
        self._per_minute = per_minute
        self._now = now
        self._max_clients = max_clients
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, client: str) -> float:
        """Count a request. Return 0 if it is allowed, or else how many seconds too early it is."""
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


class Operations:
    """The limits, metrics and spans for one process."""

    def __init__(self, section: ServerSection, callbacks: Sequence[RunCallbacks] = ()) -> None:
        self.slots = RunSlots(
            section.max_runs,
            tenant_slots=section.max_runs_tenant,
            max_waiting=section.max_waiting_runs,
            wait_s=section.run_wait_s,
        )
        self.metrics = Metrics(self.slots)
        self.keys = RateLimiter(section.requests_per_minute, time.monotonic)
        self.addresses = RateLimiter(section.requests_per_minute_address, time.monotonic)
        self.spans = RequestSpans(callbacks)
