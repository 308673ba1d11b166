"""What the work of agents took: rounds, calls, seconds, tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct, field

from ragflow_lg.base.values import JsonValue
from ragflow_lg.services.chat import NO_USAGE, Usage

__all__ = ["AgentMetrics", "ToolMetrics", "usage_json"]


class ToolMetrics(NamedTuple):
    """How often one tool was called, and how that went."""

    calls: int = 0
    failures: int = 0
    seconds: float = 0.0

    @property
    def success_rate(self) -> float:
        """Share of the calls that did not fail, from 0 to 1; 1 where there was none."""
        return (self.calls - self.failures) / self.calls if self.calls else 1.0

    def plus(self, other: ToolMetrics) -> ToolMetrics:
        """Give the sum."""
        return ToolMetrics(self.calls + other.calls, self.failures + other.failures, self.seconds + other.seconds)


_NO_TOOLS: Mapping[str, ToolMetrics] = {}


class AgentMetrics(Struct, frozen=True):
    """What one visit of an agent, or all visits of a run, did themselves.

    Steps whose results were there already, from before a crash or a retry, are not among them but in ``replayed``: the
    runs of a session add up to what was really asked and called.
    """

    visits: int = 0
    total_s: float = 0.0
    """Of a run: the time of the agents that stand in the canvas; those that are tools work within it."""
    model_s: float = 0.0
    tool_s: float = 0.0
    """Added up over the calls, also where they ran at the same time."""
    iterations: int = 0
    """Rounds of the model."""
    failed_iterations: int = 0
    tools: Mapping[str, ToolMetrics] = field(default_factory=lambda: _NO_TOOLS)
    """By the names that the models were shown."""
    usage: Usage = NO_USAGE
    """Of the agent's own model; agents that are its tools have metrics of their own."""
    replayed: int = 0
    """Rounds and calls that were not repeated."""
    replayed_usage: Usage = NO_USAGE
    """What those rounds had used."""

    @property
    def calls(self) -> int:
        """How many calls of tools there were."""
        return sum(tool.calls for tool in self.tools.values())

    @property
    def failures(self) -> int:
        """How many of them failed."""
        return sum(tool.failures for tool in self.tools.values())

    @property
    def success_rate(self) -> float:
        """Share of the calls that did not fail, from 0 to 1; 1 where there was none."""
        return ToolMetrics(self.calls, self.failures).success_rate

    def plus(self, other: AgentMetrics, *, is_nested: bool = False) -> AgentMetrics:
        """Give the sum. The time of an agent that ``is_nested`` is in that of its caller already."""
        tools = dict(self.tools)
        for name, tool in other.tools.items():
            tools[name] = tools.get(name, ToolMetrics()).plus(tool)
        inside = other.total_s if is_nested else 0.0
        return AgentMetrics(
            self.visits + other.visits,
            self.total_s + other.total_s - inside,
            self.model_s + other.model_s,
            # What an agent that is a tool took is told by its own model and tools.
            self.tool_s + other.tool_s - inside,
            self.iterations + other.iterations,
            self.failed_iterations + other.failed_iterations,
            tools,
            self.usage.plus(other.usage),
            self.replayed + other.replayed,
            self.replayed_usage.plus(other.replayed_usage),
        )

    def data(self) -> dict[str, JsonValue]:
        """Give all of it as JSON."""
        return {
            "visits": self.visits,
            "total_seconds": self.total_s,
            "model_seconds": self.model_s,
            "tool_seconds": self.tool_s,
            "iterations": self.iterations,
            "failed_iterations": self.failed_iterations,
            "calls": self.calls,
            "failures": self.failures,
            "success_rate": self.success_rate,
            "tools": {
                name: {
                    "calls": tool.calls,
                    "failures": tool.failures,
                    "seconds": tool.seconds,
                    "success_rate": tool.success_rate,
                }
                for name, tool in self.tools.items()
            },
            "usage": usage_json(self.usage),
            "replayed": self.replayed,
            "replayed_usage": usage_json(self.replayed_usage),
        }


def usage_json(usage: Usage) -> dict[str, JsonValue]:
    """Give a usage as JSON."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "calls": usage.calls,
        "cost": usage.cost,
    }
