"""The strategies by which an agent uses its tools, and the choice among them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from ragflow_lg.services.chat import ChatModel

if TYPE_CHECKING:
    from ragflow_lg.agents.agent_run import AgentRun

__all__ = ["Strategy", "StrategyName", "choose_strategy", "load_strategy"]

logger = logging.getLogger(__name__)

Strategy: TypeAlias = Callable[["AgentRun"], Awaitable[str]]
"""Use the model and the tools of a run to find an answer; return it, with ``<think>`` tags."""

StrategyName: TypeAlias = Literal["function_calling", "react", "plan_and_reflect"]


def load_strategy(name: StrategyName) -> Strategy:
    """Import and return a strategy. Imports happen here so that checking a canvas stays fast."""
    if name == "function_calling":
        from ragflow_lg.agents.function_calling import call_functions

        return call_functions
    if name == "react":
        from ragflow_lg.agents.react import react

        return react
    from ragflow_lg.agents.plan_and_reflect import plan_and_reflect

    return plan_and_reflect


def choose_strategy(model: ChatModel, configured: StrategyName | None) -> StrategyName:
    """Return the strategy for a model: the configured one, else one that suits its abilities.

    A model without native tool calls uses ReAct instead of function calling, with its tools in the prompt.
    """
    if model.has_tools:
        return configured or "function_calling"
    if configured == "function_calling":
        logger.warning("The model does not support tool calls; the agent uses ReAct instead of function calling.")
    return "react" if configured in (None, "function_calling") else configured
