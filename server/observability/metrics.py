"""Prometheus metrics for one process. No label contains a value that a tenant can choose."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from ragflow_lg.runs.callbacks import RunCallbacks, RunInfo, RunSummary

if TYPE_CHECKING:
    from ragflow_lg.server.observability.run_slots import RunSlots

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_RUN_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_FIRST_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 2.5, 5, 10, 30)
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
_STATUSES = frozenset({"succeeded", "failed", "cancelled", "waiting", "drained"})

logger = logging.getLogger(__name__)


class Metrics:
    """Counts the server's operations."""

    def __init__(self, slots: RunSlots) -> None:
        self._registry = CollectorRegistry()
        self._requests = self._counter("requests", "Requests, by path template.", "method", "route", "status")
        self._seconds = self._histogram("request_seconds", "Time to the last byte of a response.", _RUN_S, "route")
        self._first = self._histogram("first_event_seconds", "Time to the first event of a stream.", _FIRST_S)
        self._streams = Gauge("ragflow_lg_open_streams", "Open streams.", registry=self._registry)
        self._refused = self._counter("refused", "Refused requests.", "reason")
        self._quotas = self._counter("quota_refused", "Requests refused because of a quota.", "tenant", "quota")
        self._runs = self._counter("runs", "Runs that ended; waiting: paused for an answer.", "status")
        self._run_s = self._histogram("run_seconds", "Duration of runs.", _RUN_S, "status")
        self._tokens = self._counter("tokens", "Tokens sent to and received from models.", "kind")
        self._gauge("runs_running", "Runs in progress.", lambda: slots.in_use)
        self._gauge("runs_queued", "Runs waiting for a slot.", lambda: slots.queue_length)

    def text(self) -> bytes:
        """Return all metrics in Prometheus text format."""
        return generate_latest(self._registry)

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a completed request. ``route`` is a path template, or ``other`` if none matches."""
        self._requests.labels(method if method in _METHODS else "other", route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def count_refusal(self, reason: str) -> None:
        """Count a refused request. ``reason`` is always one of ours, never text from a client."""
        self._refused.labels(reason).inc()

    def count_quota_refusal(self, tenant: str, quota: str) -> None:
        """Count a request that a tenant's quota refused. Operators name tenants, so their number is limited."""
        self._quotas.labels(tenant, quota).inc()

    def begin_stream(self, seconds: float) -> None:
        """Count the start of a stream, and record how long its first event took."""
        self._first.observe(seconds)
        self._streams.inc()

    def end_stream(self) -> None:
        """Count the end of a stream."""
        self._streams.dec()

    def count_run(self, summary: RunSummary) -> None:
        """Count a run that has ended."""
        status = summary.status if summary.status in _STATUSES else "other"
        self._runs.labels(status).inc()
        self._run_s.labels(status).observe(summary.elapsed_s)
        self._tokens.labels("prompt").inc(max(0, summary.usage.prompt_tokens))
        self._tokens.labels("completion").inc(max(0, summary.usage.completion_tokens))

    def show_queue(self, waiting: Callable[[], float], played: Callable[[], float], age_s: Callable[[], float]) -> None:
        """Show the state of the queue from which workers play runs. It is the same in all processes."""
        self._gauge("queue_waiting", "Runs that wait for a worker.", waiting)
        self._gauge("queue_played", "Runs that workers play.", played)
        self._gauge("queue_age_seconds", "How long the run that waits longest has waited.", age_s)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"ragflow_lg_{name}", text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"ragflow_lg_{name}", text, labels, buckets=buckets, registry=self._registry)

    def _gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        Gauge(f"ragflow_lg_{name}", text, registry=self._registry).set_function(value)


class MetricsCallbacks(RunCallbacks):
    """Counts runs and logs how they ended."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def on_run_finished(self, run: RunInfo, summary: RunSummary) -> None:
        """Count a run."""
        self._metrics.count_run(summary)
        logger.info("run %s in session %s: %s in %.3f s", run.run_id, run.session, summary.status, summary.elapsed_s)
