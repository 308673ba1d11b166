"""One-line texts about what agents did."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.server.cli.terminal import count_of, printable
from ragflow_lg.services.agent_metrics import AgentMetrics

MAX_CHARS = 120


def one_line(value: JsonValue, limit: int = MAX_CHARS) -> str:
    """Return a value on one line of at most ``limit`` characters."""
    text = " ".join(printable(to_text(value)[: limit * 4]).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def call_text(tool: str, arguments: JsonValue) -> str:
    """Return a tool call in the notation of a function call.

    >>> call_text("wikipedia_search_0", {"query": "Laos", "n": 2})
    'wikipedia_search_0(query="Laos", n=2)'
    """
    if isinstance(arguments, Mapping):
        pairs = cast("Mapping[str, Any]", arguments).items()
        text = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in pairs)
    else:
        text = to_text(arguments)
    return f"{one_line(tool)}({one_line(text)})"


def metrics_line(metrics: AgentMetrics) -> str:
    """Return the totals for all agents in a run: rounds, calls, time, tokens and cost."""
    parts = [count_of(metrics.visits, "agent"), count_of(metrics.iterations, "round")]
    calls = count_of(metrics.calls, "call")
    if metrics.failures:
        failures = (
            f"{one_line(name, 40)} {t.failures} of {t.calls}" for name, t in metrics.tools.items() if t.failures
        )
        calls += f" ({metrics.failures} failed: {', '.join(failures)})"
    parts.append(calls)
    parts.append(f"{metrics.total_s:.2f} s (model {metrics.model_s:.2f} s, tools {metrics.tool_s:.2f} s)")
    usage = metrics.usage
    if usage.prompt_tokens or usage.completion_tokens:
        parts.append(f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens")
    if usage.cost:
        parts.append(f"cost {usage.cost:.6g}")
    if metrics.replayed:
        parts.append(f"{count_of(metrics.replayed, 'step')} not repeated")
    return ", ".join(parts)
