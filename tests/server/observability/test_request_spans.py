from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragflow_lg.adapters.telemetry.otel_spans import OtelSpans
from ragflow_lg.base.trace_context import current_traceparent
from ragflow_lg.server.observability.request_spans import RequestSpans

TRACE = "0af7651916cd43dd8448eb211c80319c"


def test_a_span_continues_the_trace_of_the_client() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans = RequestSpans([OtelSpans(provider)])
    with spans.span("POST", [(b"traceparent", f"00-{TRACE}-b7ad6b7169203331-01".encode())]) as span:
        assert current_traceparent().startswith(f"00-{TRACE}-")
        assert "b7ad6b7169203331" not in current_traceparent()
        span.end("POST", "/agents/{agent_id}", 500)
    assert current_traceparent() == ""
    with spans.span("MAKE\n", [(b"traceparent", b"\xff nonsense")]):
        pass
    first, second = exporter.get_finished_spans()
    assert first.context is not None
    assert (first.name, f"{first.context.trace_id:032x}") == ("POST /agents/{agent_id}", TRACE)
    assert not first.status.is_ok
    assert (second.name, second.parent) == ("_OTHER", None)


def test_without_a_tracer_no_trace_is_passed_on() -> None:
    with RequestSpans([]).span("GET", [(b"traceparent", f"00-{TRACE}-b7ad6b7169203331-01".encode())]) as span:
        span.end("GET", "/x", 200)
        assert current_traceparent() == ""
