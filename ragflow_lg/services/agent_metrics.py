"""Agent metrics: rounds, calls, seconds and tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct, field

from ragflow_lg.base.values import JsonValue
from ragflow_lg.services.chat import NO_USAGE, Usage


class ToolMetrics(NamedTuple):
    """The calls of one tool."""

    calls: int = 0
    failures: int = 0
    seconds: float = 0.0

    @property
    def success_rate(self) -> float:
        """The share of successful calls, from 0 to 1; 1 if there were no calls."""
        return (self.calls - self.failures) / self.calls if self.calls else 1.0

    def plus(self, other: ToolMetrics) -> ToolMetrics:
        """Return the sum."""
        return ToolMetrics(self.calls + other.calls, self.failures + other.failures, self.seconds + other.seconds)


_NO_TOOLS: Mapping[str, ToolMetrics] = {}


class AgentMetrics(Struct, frozen=True):
    """The work done by one execution of an agent, or by all agents in a run.

    Steps whose results were restored after a crash or a retry are only counted in ``replayed``, so the sum over a
    session's runs is the number of requests and calls that were really made.
    """

    visits: int = 0
    total_s: float = 0.0
    """For a run: the time spent in the canvas's agents, including agents that they call as tools."""
    model_s: float = 0.0
    tool_s: float = 0.0
    """The total over all calls, even if they ran in parallel."""
    iterations: int = 0
    """The number of model rounds."""
    failed_iterations: int = 0
    tools: Mapping[str, ToolMetrics] = field(default_factory=lambda: _NO_TOOLS)
    """The tool metrics, by the names that models see."""
    usage: Usage = NO_USAGE
    """The usage of the agent's own model; agents that it calls as tools have their own metrics."""
    replayed: int = 0
    """The number of restored rounds and calls, which were not repeated."""
    replayed_usage: Usage = NO_USAGE
    """The usage of those rounds."""

    @property
    def calls(self) -> int:
        """The number of tool calls."""
        return sum(tool.calls for tool in self.tools.values())

    @property
    def failures(self) -> int:
        """The number of failed tool calls."""
        return sum(tool.failures for tool in self.tools.values())

    @property
    def success_rate(self) -> float:
        """The share of successful calls, from 0 to 1; 1 if there were no calls."""
        return ToolMetrics(self.calls, self.failures).success_rate

    def plus(self, other: AgentMetrics, *, is_nested: bool = False) -> AgentMetrics:
        """Return the sum. A nested agent's time is already included in its caller's time."""
        tools = dict(self.tools)
        for name, tool in other.tools.items():
            tools[name] = tools.get(name, ToolMetrics()).plus(tool)
        nested_s = other.total_s if is_nested else 0.0
        return AgentMetrics(
            self.visits + other.visits,
            self.total_s + other.total_s - nested_s,
            self.model_s + other.model_s,
            # The time of an agent called as a tool is part of its own model and tool times.
            self.tool_s + other.tool_s - nested_s,
            self.iterations + other.iterations,
            self.failed_iterations + other.failed_iterations,
            tools,
            self.usage.plus(other.usage),
            self.replayed + other.replayed,
            self.replayed_usage.plus(other.replayed_usage),
        )

    def data(self) -> dict[str, JsonValue]:
        """Return the metrics as JSON."""
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
    """Return token usage as JSON."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "calls": usage.calls,
        "cost": usage.cost,
    }
