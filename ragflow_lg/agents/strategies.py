"""The strategies by which an agent uses its tools, and which one a model gets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, TypeAlias

from ragflow_lg.agents.agent_run import AgentRun
from ragflow_lg.agents.function_calling import call_functions

__all__ = ["STRATEGIES", "Strategy", "StrategyName"]

Strategy: TypeAlias = Callable[[AgentRun], Awaitable[str]]
"""Uses the model and the tools of a run until there is an answer, and gives it, with ``<think>`` tags."""

StrategyName: TypeAlias = Literal["function_calling"]

STRATEGIES: Mapping[StrategyName, Strategy] = {"function_calling": call_functions}
