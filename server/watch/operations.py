"""What keeps an eye on the server while it answers: limits, metrics, spans."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from server.watch.metrics import Metrics
from server.watch.rates import Rates
from server.watch.request_spans import RequestSpans
from server.watch.run_places import RunPlaces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragflow_lg.callbacks import RunCallbacks
    from server.settings import ServerSection

__all__ = ["Operations"]


class Operations:
    """Limits, metrics and spans of one process."""

    def __init__(self, section: ServerSection, callbacks: Sequence[RunCallbacks] = ()) -> None:
        self.places = RunPlaces(
            section.max_runs,
            places_tenant=section.max_runs_tenant,
            max_waiting=section.max_waiting_runs,
            wait_s=section.run_wait_s,
        )
        self.metrics = Metrics(self.places)
        self.keys = Rates(section.requests_per_minute, time.monotonic)
        self.addresses = Rates(section.requests_per_minute_address, time.monotonic)
        self.spans = RequestSpans(callbacks)
