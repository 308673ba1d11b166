"""Limits, metrics and spans for one process."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from ragflow_lg.server.observability.metrics import Metrics
from ragflow_lg.server.observability.run_slots import RunSlots
from ragflow_lg.services.http import use_traceparent

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from ragflow_lg.runs.callbacks import RunCallbacks
    from ragflow_lg.server.settings.server_section import ServerSection


MAX_CLIENTS = 10_000
"""How many clients are remembered. The least recent one is dropped and starts again with a full bucket."""

SIGN_INS_PER_MINUTE = 20
"""Attempts to sign in from one address, and for one e-mail address, so that passwords cannot be guessed."""

METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


class RequestSpan:
    """The span for one request, or nothing if tracing is off."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def end(self, method: str, route: str, status: int) -> None:
        """Record the request's result. ``route`` is the path template."""
        if self._span is None:
            return
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

    def span(self, method: str, headers: Iterable[tuple[bytes, bytes]]) -> AbstractContextManager[RequestSpan]:
        """Open a span that continues the trace in ``headers``. Everything in the block belongs to the span."""
        return nullcontext(RequestSpan()) if self._tracer is None else self._open(self._tracer, method, headers)

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
    """Return how many runs of a tenant without a quota of its own may be in progress; 0 for all."""
    return -(-section.max_runs * 3 // 4) if section.max_runs_tenant is None else section.max_runs_tenant


class Operations:
    """The limits, metrics and spans for one process."""

    def __init__(self, section: ServerSection, callbacks: Sequence[RunCallbacks] = ()) -> None:
        self.slots = RunSlots(
            section.max_runs,
            tenant_slots=find_tenant_slots(section),
            max_waiting=section.max_waiting_runs,
            wait_s=section.run_wait_s,
            max_input_chars=section.max_input_chars,
        )
        self.metrics = Metrics(self.slots)
        self.keys = RateLimiter(section.requests_per_minute, time.monotonic)
        self.sign_ins = RateLimiter(SIGN_INS_PER_MINUTE, time.monotonic)
        self.addresses = RateLimiter(section.requests_per_minute_address, time.monotonic)
        self.spans = RequestSpans(callbacks)
