"""The strategies with which an agent uses its tools, and the selection of one."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from ragflow_lg.agents.agent_run import AgentLoop, final_prompt, request_schema, result_text
from ragflow_lg.agents.call_arguments import conversation_calls
from ragflow_lg.agents.written_calls import find_unread_call
from ragflow_lg.base.thinking import strip_thinking
from ragflow_lg.models.answer_checks import EMPTY_TRIES, is_empty
from ragflow_lg.models.engine_prompts import engine_prompt, prompt_text
from ragflow_lg.models.structured_answer import append_schema
from ragflow_lg.services.chat import ChatAnswer, ChatModel

logger = logging.getLogger(__name__)

_SCHEMA_HEAD = "\n\nThe following applies only to an answer without calls of tools."

Strategy: TypeAlias = Callable[[AgentLoop], Awaitable[str]]
"""Use a run's model and tools to find an answer; return it, with ``<think>`` tags."""

StrategyName: TypeAlias = Literal["function_calling", "react", "plan_and_reflect", "deep_research"]


async def call_functions(run: AgentLoop, *, is_written: bool = False) -> str:
    """Return the model's answer after it has called its tools; after the last round it must answer without them.

    If calls are to be written as text, the system prompt has the tools, and results are messages of the user.
    """
    messages: list[dict[str, Any]] = [dict(message) for message in run.request.messages]
    names = [tool.name for tool in run.toolbox.schemas]
    offer = run.request if is_written else replace(run.request, tools=run.toolbox.schemas)
    if is_written:
        offer = replace(offer, system=_prompt_with_tools(run))
    number = empties = 0
    is_old = run.ctx.compatibility.old_values
    while number <= run.max_rounds and not await run.is_spent(f"round {number}"):
        request = run.with_guidelines(replace(offer, messages=tuple(messages)))
        answer = await run.ask(request, f"round {number}", run.stream, is_written=is_written)
        number += 1
        if is_written and (answer.calls or find_unread_call(answer.text, names)):
            messages += await _results_as_text(run, answer, str(number - 1))
            continue
        if not answer.calls:
            empties = empties + 1 if is_empty(answer) else 0
            if is_old or empties in (0, EMPTY_TRIES):
                return answer.text
            continue
        outcomes = await run.call(answer.calls, str(number - 1))
        messages.append({"role": "assistant", "content": "", "tool_calls": conversation_calls(answer.calls)})
        for call, outcome in zip(answer.calls, outcomes, strict=True):
            content = result_text(outcome.value, is_old=is_old)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    is_spent = number <= run.max_rounds
    reason = "The token budget is used up." if is_spent else f"Exceed max rounds: {run.max_rounds}."
    messages.append({"role": "user", "content": final_prompt(run.ctx, reason)})
    ignores_calls = is_old and run.stream is not None  # RAGFlow offers tools that it then does not call
    last = replace(offer if ignores_calls else run.request, messages=tuple(messages))
    last = request_schema(run, last)
    return await run.ask_for_answer(run.with_guidelines(last), f"round {number}")


def _prompt_with_tools(run: AgentLoop) -> str:
    """Return the system prompt with the tools and the answer schema."""
    tools = "\n".join(
        f"- {tool.name}: {' '.join(tool.description.split())}\n"
        f"  Arguments (JSON schema): {json.dumps(tool.parameters, ensure_ascii=False)}"
        for tool in run.toolbox.schemas
    )
    system = f"{run.request.system}\n\n{engine_prompt(run.ctx, 'react', tools=tools)}".lstrip()
    if run.schema is None:
        return system
    return append_schema(system + _SCHEMA_HEAD, run.schema, prompt_text(run.ctx, "structured_output"))


async def _results_as_text(run: AgentLoop, answer: ChatAnswer, position: str) -> list[dict[str, Any]]:
    """Make the calls that an answer contains as text; return the messages with the answer and their results."""
    outcomes = await run.call(answer.calls, position)
    pairs = zip(answer.calls, outcomes, strict=True)
    results = "\n".join(f"Result of {call.name}: {result_text(outcome.value)}" for call, outcome in pairs)
    return [
        {"role": "assistant", "content": strip_thinking(answer.text)},
        {"role": "user", "content": results or engine_prompt(run.ctx, "react_retry")},
    ]


def load_strategy(name: StrategyName) -> Strategy:
    """Import and return a strategy. Imports happen here so that checking a canvas stays fast."""
    if name == "function_calling":
        return call_functions
    if name == "react":
        return partial(call_functions, is_written=True)
    if name == "deep_research":
        from ragflow_lg.agents.deep_research import deep_research

        return deep_research
    from ragflow_lg.agents.plan_and_reflect import plan_and_reflect

    return plan_and_reflect


def choose_strategy(model: ChatModel, configured: StrategyName | None) -> StrategyName:
    """Return the strategy for a model: the configured one, or else one that suits its capabilities.

    A model without native tool calls gets its tools in the prompt and writes its calls (``react``).
    """
    if model.has_tools:
        return configured or "function_calling"
    if configured == "function_calling":
        logger.warning("The model does not support tool calls; the agent uses the strategy react.")
    return "react" if configured in (None, "function_calling") else configured
