"""Limits, metrics and spans of one process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ragflow_lg.server.observability.metrics import Metrics
from ragflow_lg.server.observability.rate_limits import RateLimiter
from ragflow_lg.server.observability.request_spans import RequestSpans
from ragflow_lg.server.observability.run_slots import RunSlots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragflow_lg.runs.callbacks import RunCallbacks
    from ragflow_lg.server.settings import ServerSection

__all__ = ["Operations"]


class Operations:
    """The limits, metrics and spans of one process."""

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
