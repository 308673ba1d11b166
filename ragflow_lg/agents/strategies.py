"""The strategies by which an agent uses its tools, and which one a model gets."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from ragflow_lg.services.chat import ChatModel

if TYPE_CHECKING:
    from ragflow_lg.agents.agent_run import AgentRun

__all__ = ["Strategy", "StrategyName", "strategy_for", "strategy_named"]

logger = logging.getLogger(__name__)

Strategy: TypeAlias = Callable[["AgentRun"], Awaitable[str]]
"""Uses the model and the tools of a run until there is an answer, and gives it, with ``<think>`` tags."""

StrategyName: TypeAlias = Literal["function_calling", "react", "plan_and_reflect"]


def strategy_named(name: StrategyName) -> Strategy:
    """Give a strategy. It is imported when an agent needs it, not when a canvas is checked."""
    if name == "function_calling":
        from ragflow_lg.agents.function_calling import call_functions

        return call_functions
    if name == "react":
        from ragflow_lg.agents.react import react

        return react
    from ragflow_lg.agents.plan_and_reflect import plan_and_reflect

    return plan_and_reflect


def strategy_for(model: ChatModel, chosen: StrategyName | None) -> StrategyName:
    """Give the strategy for a model: the chosen one, else by what the model can.

    A model that calls no tools does not get function calling, whatever was chosen: its tools stand in its prompt.
    """
    if model.has_tools:
        return chosen or "function_calling"
    if chosen == "function_calling":
        logger.warning("The model calls no tools itself; the agent uses ReAct in place of function calling.")
    return "react" if chosen in (None, "function_calling") else chosen
