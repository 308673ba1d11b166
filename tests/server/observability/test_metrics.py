from ragflow_lg.runs.callbacks import RunSummary
from ragflow_lg.server.observability.operations import Metrics
from ragflow_lg.server.observability.run_slots import RunSlots
from ragflow_lg.services.agent_metrics import AgentMetrics
from ragflow_lg.services.chat import Usage


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
