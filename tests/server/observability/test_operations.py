from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragflow_lg.adapters.telemetry.otel_spans import OtelSpans
from ragflow_lg.runs.callbacks import RunSummary
from ragflow_lg.server.observability.operations import Metrics, Operations, RateLimiter, RequestSpans
from ragflow_lg.server.observability.run_slots import RunSlots
from ragflow_lg.server.settings.server_section import ServerSection
from ragflow_lg.services.agent_metrics import AgentMetrics
from ragflow_lg.services.chat import Usage
from ragflow_lg.services.http import current_traceparent

TRACE = "0af7651916cd43dd8448eb211c80319c"


async def test_the_limits_come_from_the_settings() -> None:
    operations = Operations(ServerSection(max_runs=1, requests_per_minute=1, requests_per_minute_address=2))
    await operations.slots.acquire("t")
    assert operations.slots.in_use == 1
    assert [operations.keys.wait_s("k") > 0 for _ in range(2)] == [False, True]
    assert [operations.addresses.wait_s("a") > 0 for _ in range(3)] == [False, False, True]


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_limit_is_refilled_evenly() -> None:
    time = Time()
    limiter = RateLimiter(60, time)
    assert [limiter.wait_s("a") for _ in range(60)] == [0.0] * 60
    assert limiter.wait_s("a") == 1.0
    assert limiter.wait_s("b") == 0.0
    time.now = 0.5
    assert limiter.wait_s("a") == 0.5
    time.now = 1.0
    assert [limiter.wait_s("a"), limiter.wait_s("a")] == [0.0, 1.0]


def test_without_a_limit_every_request_is_allowed() -> None:
    limiter = RateLimiter(0, Time())
    assert [limiter.wait_s("a") for _ in range(1000)] == [0.0] * 1000


def test_the_number_of_remembered_clients_is_bounded() -> None:
    limiter = RateLimiter(1, Time(), max_clients=2)
    for client in ("a", "b", "c"):
        assert limiter.wait_s(client) == 0.0
    assert limiter.wait_s("c") > 0
    assert limiter.wait_s("a") == 0.0


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


def value(metrics: Metrics, line: str) -> float:
    lines = [text for text in metrics.text().decode().splitlines() if text.startswith(f"ragflow_lg_{line} ")]
    return float(lines[0].rpartition(" ")[2]) if lines else -1.0


async def test_runs_and_requests_are_counted() -> None:
    slots = RunSlots(5)
    metrics = Metrics(slots)
    await slots.acquire("a")
    for status in ("succeeded", "waiting", "a status of a later version"):
        metrics.count_run(RunSummary(status, None, 0.2, Usage(3, 4), AgentMetrics()))
    metrics.count_request("GET", "/agents", 200, 0.1)
    metrics.count_request("BREW", "other", 404, 0.1)
    metrics.count_refusal("rate")
    metrics.begin_stream(0.03)
    assert value(metrics, 'runs_total{status="succeeded"}') == 1
    assert value(metrics, 'runs_total{status="waiting"}') == 1
    assert value(metrics, 'runs_total{status="other"}') == 1
    assert value(metrics, 'tokens_total{kind="prompt"}') == 9
    assert value(metrics, 'requests_total{method="other",route="other",status="404"}') == 1
    assert value(metrics, 'refused_total{reason="rate"}') == 1
    assert value(metrics, "runs_running") == 1
    assert value(metrics, "runs_queued") == 0
    assert value(metrics, "open_streams") == 1
    metrics.end_stream()
    assert value(metrics, "open_streams") == 0
    assert value(metrics, 'first_event_seconds_bucket{le="0.05"}') == 1
