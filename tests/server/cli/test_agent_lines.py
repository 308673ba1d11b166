import pytest

from ragflow_lg.base.values import JsonValue
from ragflow_lg.server.cli.agent_lines import call_text, metrics_line, one_line
from ragflow_lg.services.agent_metrics import AgentMetrics, ToolMetrics
from ragflow_lg.services.chat import Usage


@pytest.mark.parametrize(
    ("value", "line"),
    [(None, ""), ("a\n b\x1b[2J", "a b [2J"), ({"ü": [1]}, '{"ü": [1]}'), ("x" * 10_000, "x" * 119 + "…")],
)
def test_every_value_fits_on_one_line(value: JsonValue, line: str) -> None:
    assert one_line(value) == line


def test_a_call_reads_like_a_function_call() -> None:
    assert call_text("look_0", {}) == "look_0()"
    assert call_text("look_0", {"q": "Laos", "deep": {"a": None}}) == 'look_0(q="Laos", deep={"a": null})'
    assert call_text("look_0", "not JSON") == "look_0(not JSON)"
    assert len(call_text("x" * 1000, {"q": "y" * 1000})) < 250


def test_the_totals_of_all_agents() -> None:
    tools = {"look_0": ToolMetrics(3, 1, 2.0), "ask_1": ToolMetrics(1)}
    full = AgentMetrics(2, 3.0, 1.0, 2.0, 5, 0, tools, Usage(1234, 56, 5, 0.00125), 1)
    assert metrics_line(full) == (
        "2 agents, 5 rounds, 4 calls (1 failed: look_0 1 of 3), 3.00 s (model 1.00 s, tools 2.00 s), "
        "1,234 + 56 tokens, cost 0.00125, 1 step not repeated"
    )
    assert metrics_line(AgentMetrics(visits=1, iterations=1)) == (
        "1 agent, 1 round, 0 calls, 0.00 s (model 0.00 s, tools 0.00 s)"
    )
