"""Spans of requests: they continue the trace of whoever asks, and the spans of runs belong to them."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ragflow_lg.base.trace_context import use_traceparent

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from ragflow_lg.runs.callbacks import RunCallbacks

__all__ = ["RequestSpan", "RequestSpans"]

METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


class RequestSpan:
    """The span of one request, or none."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def end(self, method: str, route: str, status: int) -> None:
        """Say what came of it. ``route`` is the template of the path."""
        if self._span is None:
            return
        self._span.update_name(f"{method} {route}")
        self._span.set_attributes({"http.route": route, "http.response.status_code": status})
        if status >= 500:
            from opentelemetry.trace import StatusCode

            self._span.set_status(StatusCode.ERROR)


class RequestSpans:
    """Makes spans of requests with the tracer of the callbacks, if these make spans."""

    def __init__(self, callbacks: Sequence[RunCallbacks]) -> None:
        tracers = (getattr(callback, "tracer", None) for callback in callbacks)
        self._tracer: Tracer | None = next((tracer for tracer in tracers if tracer is not None), None)

    @contextmanager
    def span(self, method: str, headers: Iterable[tuple[bytes, bytes]]) -> Generator[RequestSpan]:
        """Let what happens meanwhile belong to a span that continues the trace in ``headers``."""
        if self._tracer is None:
            yield RequestSpan()
            return
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        texts = TraceContextTextMapPropagator()
        wanted = {"traceparent", "tracestate"}
        given = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
        parent = texts.extract({name: value for name, value in given.items() if name in wanted}, Context())
        known = method if method in METHODS else "_OTHER"
        with self._tracer.start_as_current_span(
            known, parent, SpanKind.SERVER, {"http.request.method": known}, record_exception=False
        ) as span:
            carrier: dict[str, str] = {}
            texts.inject(carrier)
            with use_traceparent(carrier.get("traceparent", "")):
                yield RequestSpan(span)
