import asyncio

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragflow_lg.adapters.telemetry.otel_spans import OtelSpans
from ragflow_lg.base.errors import BusyError
from ragflow_lg.server.observability.operations import Metrics, RateLimiter, RequestSpans
from ragflow_lg.server.observability.run_slots import Places, RunSlots
from ragflow_lg.services.chat import Usage
from ragflow_lg.services.http import current_traceparent

TRACE = "0af7651916cd43dd8448eb211c80319c"


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
        assert span is not None
        span.end("POST", "/agents/{agent_id}", 500)
    assert current_traceparent() == ""
    with spans.span("MAKE\n", [(b"traceparent", b"\xff nonsense")]):
        pass
    first, second = exporter.get_finished_spans()
    assert first.context is not None
    assert (first.name, f"{first.context.trace_id:032x}") == ("POST /agents/{agent_id}", TRACE)
    assert not first.status.is_ok
    assert (second.name, second.parent) == ("_OTHER", None)


def value(metrics: Metrics, line: str) -> float:
    lines = [text for text in metrics.text().decode().splitlines() if text.startswith(f"ragflow_lg_{line} ")]
    return float(lines[0].rpartition(" ")[2]) if lines else -1.0


async def test_runs_and_requests_are_counted() -> None:
    slots = RunSlots(5)
    metrics = Metrics(slots)
    await slots.acquire("a")
    for status in ("succeeded", "waiting", "a status of a later version"):
        metrics.count_run(status, 0.2, Usage(3, 4))
    metrics.count_request("GET", "/agents", 200, 0.1)
    metrics.count_request("BREW", "other", 404, 0.1)
    metrics.count_refusal("rate")
    metrics.begin_stream(0.03)
    expected = {
        'runs_total{status="succeeded"}': 1, 'runs_total{status="waiting"}': 1, 'runs_total{status="other"}': 1,
        'tokens_total{kind="prompt"}': 9, 'requests_total{method="other",route="other",status="404"}': 1,
        'refused_total{reason="rate"}': 1, "runs_running": 1, "runs_queued": 0, "open_streams": 1,
        'first_event_seconds_bucket{le="0.05"}': 1,
    }  # fmt: skip
    assert {name: value(metrics, name) for name in expected} == expected
    metrics.end_stream()
    assert value(metrics, "open_streams") == 0


async def _let_tasks_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_later_runs_wait_in_order() -> None:
    slots = RunSlots(1, max_waiting=2, wait_s=5)
    first = await slots.acquire("a")
    order: list[str] = []

    async def run(tenant: str) -> None:
        release = await slots.acquire(tenant)
        order.append(tenant)
        release()

    tasks = [asyncio.create_task(run(tenant)) for tenant in ("b", "c")]
    await _let_tasks_run()
    assert (slots.in_use, slots.queue_length, order) == (1, 2, [])
    with pytest.raises(BusyError, match="server has reached its limit"):
        await slots.acquire("d")
    first()
    first()
    await asyncio.gather(*tasks)
    assert (slots.in_use, slots.queue_length, order) == (0, 0, ["b", "c"])


async def test_a_tenant_at_its_limit_does_not_delay_others() -> None:
    slots = RunSlots(3, tenant_slots=1, max_waiting=5, wait_s=5)
    release = await slots.acquire("a")
    waiting = asyncio.create_task(slots.acquire("a"))
    await _let_tasks_run()
    other = await slots.acquire("b")
    assert not waiting.done()
    release()
    (await waiting)()
    other()
    assert slots.in_use == 0


async def test_a_cancelled_waiter_takes_no_slot() -> None:
    slots = RunSlots(1, max_waiting=5, wait_s=5)
    release = await slots.acquire("a")
    early, late = (asyncio.create_task(slots.acquire("b")) for _ in range(2))
    await _let_tasks_run()
    early.cancel()
    release()
    late.cancel()  # just when it is granted the slot
    await asyncio.gather(early, late, return_exceptions=True)
    assert (slots.in_use, slots.queue_length) == (0, 0)


async def test_long_inputs_wait_for_each_other_but_not_for_those_of_other_tenants() -> None:
    slots = RunSlots(100, max_waiting=10, wait_s=5, max_input_chars=100)
    release = await slots.acquire(Places("a", input_chars=70))
    waiting = asyncio.create_task(slots.acquire(Places("a", input_chars=60)))
    await _let_tasks_run()
    assert not waiting.done()
    with pytest.raises(BusyError, match="inputs of the concurrent runs are too long"):
        await slots.acquire(Places("a", input_chars=60))  # the waiting ones are too long together as well
    (await slots.acquire("a"))()  # a short one passes them
    other = await slots.acquire(Places("b", input_chars=1_000))
    release()
    await _let_tasks_run()
    assert waiting.done() is True
    (await waiting)()
    other()
    (await slots.acquire(Places("a", input_chars=1_000)))()  # a single input is limited elsewhere
    assert slots.in_use == 0
