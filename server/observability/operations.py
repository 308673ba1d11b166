"""Limits, Prometheus metrics and spans for one process. No label contains a value that a tenant can choose."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from ragflow_lg.runs.callbacks import RunCallbacks
from ragflow_lg.server.observability.run_slots import RunSlots
from ragflow_lg.services.http import use_traceparent

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from ragflow_lg.server.settings.server_section import ServerSection
    from ragflow_lg.services.chat import Usage


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_RUN_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_FIRST_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 2.5, 5, 10, 30)
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
_STATUSES = frozenset({"succeeded", "failed", "cancelled", "waiting", "drained"})


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

    def count_run(self, status: str, elapsed_s: float, usage: Usage) -> None:
        """Count a run that has ended."""
        status = status if status in _STATUSES else "other"
        self._runs.labels(status).inc()
        self._run_s.labels(status).observe(elapsed_s)
        self._tokens.labels("prompt").inc(max(0, usage.prompt_tokens))
        self._tokens.labels("completion").inc(max(0, usage.completion_tokens))

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


MAX_CLIENTS = 10_000
"""How many clients are remembered. The least recent one is dropped and starts again with a full bucket."""

SIGN_INS_PER_MINUTE = 20
"""Attempts to sign in from one address, and for one e-mail address, so that passwords cannot be guessed."""

METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


class RequestSpan:
    """The span for one request."""

    def __init__(self, span: Any) -> None:
        self._span = span

    def end(self, method: str, route: str, status: int) -> None:
        """Record the request's result. ``route`` is the path template."""
        self._span.update_name(f"{method} {route}")
        self._span.set_attributes({"http.route": route, "http.response.status_code": status})
        if status >= 500:
            from opentelemetry.trace import StatusCode

            self._span.set_status(StatusCode.ERROR)


class RequestSpans:
    """Creates request spans with the callbacks' tracer, if any callback has one."""

    def __init__(self, callbacks: Sequence[RunCallbacks]) -> None:
        tracers = (getattr(callback, "tracer", None) for callback in callbacks)
        self._tracer: Tracer | None = next((tracer for tracer in tracers if tracer is not None), None)

    def span(self, method: str, headers: Iterable[tuple[bytes, bytes]]) -> AbstractContextManager[RequestSpan | None]:
        """Open a span that continues the trace in ``headers``, or nothing if tracing is off.

        Everything in the block belongs to the span.
        """
        return nullcontext() if self._tracer is None else self._open(self._tracer, method, headers)

    @contextmanager
    def _open(self, tracer: Tracer, method: str, headers: Iterable[tuple[bytes, bytes]]) -> Generator[RequestSpan]:
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        propagator = TraceContextTextMapPropagator()
        values = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
        parent_headers = {name: values[name] for name in ("traceparent", "tracestate") if name in values}
        parent = propagator.extract(parent_headers, Context())
        known_method = method if method in METHODS else "_OTHER"
        with tracer.start_as_current_span(
            known_method, parent, SpanKind.SERVER, {"http.request.method": known_method}, record_exception=False
        ) as span:
            carrier: dict[str, str] = {}
            propagator.inject(carrier)
            with use_traceparent(carrier.get("traceparent", "")):
                yield RequestSpan(span)


def client_network(address: str) -> str:
    """Return what counts as one client: an IPv4 address, or the /64 network of an IPv6 address.

    Anyone who has an IPv6 address usually has the whole network.

    >>> client_network("2001:db8:1:2:3::4"), client_network("192.0.2.7"), client_network("::ffff:192.0.2.7")
    ('2001:db8:1:2::/64', '192.0.2.7', '192.0.2.7')
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


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


def find_tenant_slots(section: ServerSection) -> int:
    """Return how many runs of a tenant without a quota of its own may be in progress."""
    return -(-section.max_runs * 3 // 4)


class Operations:
    """The limits, metrics and spans for one process."""

    def __init__(self, section: ServerSection, callbacks: Sequence[RunCallbacks] = ()) -> None:
        self.slots = RunSlots(
            section.max_runs,
            tenant_slots=find_tenant_slots(section),
            max_waiting=section.max_waiting_runs,
            wait_s=section.run_wait_s,
        )
        self.metrics = Metrics(self.slots)
        self.keys = RateLimiter(section.requests_per_minute, time.monotonic)
        self.sign_ins = RateLimiter(SIGN_INS_PER_MINUTE, time.monotonic)
        self.addresses = RateLimiter(section.requests_per_minute_address, time.monotonic)
        self.spans = RequestSpans(callbacks)
