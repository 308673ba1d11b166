"""The strategies with which an agent uses its tools, and the selection of one."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from ragflow_lg.agents.agent_run import AgentLoop, final_prompt, result_text
from ragflow_lg.agents.call_arguments import conversation_calls
from ragflow_lg.models.answer_checks import EMPTY_TRIES, is_empty
from ragflow_lg.services.chat import ChatModel

logger = logging.getLogger(__name__)

Strategy: TypeAlias = Callable[[AgentLoop], Awaitable[str]]
"""Use a run's model and tools to find an answer; return it, with ``<think>`` tags."""

StrategyName: TypeAlias = Literal["function_calling", "react", "plan_and_reflect", "deep_research"]


async def call_functions(run: AgentLoop) -> str:
    """Return the model's answer after it has called its tools; after the last round it must answer without them."""
    messages: list[dict[str, Any]] = [dict(message) for message in run.request.messages]
    number = empties = 0
    while number <= run.max_rounds and not await run.is_spent(f"round {number}"):
        request = replace(run.request, messages=tuple(messages), tools=run.toolbox.schemas)
        answer = await run.ask(run.with_guidelines(request), f"round {number}", run.stream)
        number += 1
        if not answer.calls:
            empties = empties + 1 if is_empty(answer) else 0
            if empties in (0, EMPTY_TRIES):
                return answer.text
            continue
        outcomes = await run.call(answer.calls, str(number - 1))
        messages.append({"role": "assistant", "content": "", "tool_calls": conversation_calls(answer.calls)})
        for call, outcome in zip(answer.calls, outcomes, strict=True):
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result_text(outcome.value)})
    is_spent = number <= run.max_rounds
    reason = "The token budget is used up." if is_spent else f"Exceed max rounds: {run.max_rounds}."
    messages.append({"role": "user", "content": final_prompt(run.ctx, reason)})
    last = replace(run.request, messages=tuple(messages))
    return await run.ask_for_answer(run.with_guidelines(last), f"round {number}")


def load_strategy(name: StrategyName) -> Strategy:
    """Import and return a strategy. Imports happen here so that checking a canvas stays fast."""
    if name == "function_calling":
        return call_functions
    if name == "react":
        from ragflow_lg.agents.react import react

        return react
    if name == "deep_research":
        from ragflow_lg.agents.deep_research import deep_research

        return deep_research
    from ragflow_lg.agents.plan_and_reflect import plan_and_reflect

    return plan_and_reflect


def choose_strategy(model: ChatModel, configured: StrategyName | None) -> StrategyName:
    """Return the strategy for a model: the configured one, or else one that suits its capabilities.

    A model without native tool calls uses ReAct instead of function calling, with its tools in the prompt.
    """
    if model.has_tools:
        return configured or "function_calling"
    if configured == "function_calling":
        logger.warning("The model does not support tool calls; the agent uses ReAct instead of function calling.")
    return "react" if configured in (None, "function_calling") else configured
