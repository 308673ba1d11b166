"""What agents did, in lines for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.server.cli.terminal import counted, printable
from ragflow_lg.services.agent_metrics import AgentMetrics

__all__ = ["brief", "call_text", "metrics_line"]

MAX_CHARS = 120


def brief(value: JsonValue, limit: int = MAX_CHARS) -> str:
    """Give a value in one line, its end cut off where it is long."""
    text = " ".join(printable(to_text(value)[: limit * 4]).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def call_text(tool: str, arguments: JsonValue) -> str:
    """Write a call as one writes it in a program.

    >>> call_text("wikipedia_search_0", {"query": "Laos", "n": 2})
    'wikipedia_search_0(query="Laos", n=2)'
    """
    if isinstance(arguments, Mapping):
        held = cast("Mapping[str, Any]", arguments)
        shown = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in held.items())
    else:
        shown = to_text(arguments)
    return f"{brief(tool)}({brief(shown)})"


def metrics_line(metrics: AgentMetrics) -> str:
    """Give what all agents of a run took, in one line."""
    parts = [counted(metrics.visits, "agent"), counted(metrics.iterations, "round")]
    calls = counted(metrics.calls, "call")
    if metrics.failures:
        failed = (f"{brief(name, 40)} {t.failures} of {t.calls}" for name, t in metrics.tools.items() if t.failures)
        calls += f" ({metrics.failures} failed: {', '.join(failed)})"
    parts.append(calls)
    parts.append(f"{metrics.total_s:.2f} s (model {metrics.model_s:.2f} s, tools {metrics.tool_s:.2f} s)")
    usage = metrics.usage
    if usage.prompt_tokens or usage.completion_tokens:
        parts.append(f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens")
    if usage.cost:
        parts.append(f"cost {usage.cost:.6g}")
    if metrics.replayed:
        parts.append(f"{counted(metrics.replayed, 'step')} not repeated")
    return ", ".join(parts)
