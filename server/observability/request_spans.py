"""Request spans, which continue the client's trace and are the parents of run spans."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ragflow_lg.base.trace_context import use_traceparent

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from ragflow_lg.runs.callbacks import RunCallbacks

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

    @contextmanager
    def span(self, method: str, headers: Iterable[tuple[bytes, bytes]]) -> Generator[RequestSpan]:
        """Open a span that continues the trace in ``headers``. Everything in the block belongs to the span."""
        if self._tracer is None:
            yield RequestSpan()
            return
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        propagator = TraceContextTextMapPropagator()
        values = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
        parent_headers = {name: values[name] for name in ("traceparent", "tracestate") if name in values}
        parent = propagator.extract(parent_headers, Context())
        known_method = method if method in METHODS else "_OTHER"
        with self._tracer.start_as_current_span(
            known_method, parent, SpanKind.SERVER, {"http.request.method": known_method}, record_exception=False
        ) as span:
            carrier: dict[str, str] = {}
            propagator.inject(carrier)
            with use_traceparent(carrier.get("traceparent", "")):
                yield RequestSpan(span)
