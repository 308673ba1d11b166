"""Function calling: the model asks for calls, gets their results, and so on until it answers.

Source: RAGFlow's ``rag/llm/chat_model.py``.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ragflow_lg.agents.toolbox import Toolbox, calls_as_messages
from ragflow_lg.model_call import Show, ask
from ragflow_lg.services import ChatAnswer, ChatModel, ChatRequest, ToolCall
from ragflow_lg.values import JsonValue

if TYPE_CHECKING:
    from ragflow_lg.context import RunContext

__all__ = ["call_functions"]

MAX_AT_ONCE = 16
"""How many calls of one round run at the same time."""


async def call_functions(
    ctx: RunContext, model: ChatModel, request: ChatRequest, toolbox: Toolbox, max_rounds: int, show: Show | None
) -> str:
    """Let the model call tools for up to ``max_rounds`` + 1 rounds, then make it answer. Give the answer.

    Each call of the model and of a tool is a step: what has ended is not repeated after a crash. With ``show`` the text
    is shown as it comes, and each call is announced as a thought.
    """
    messages: list[dict[str, Any]] = [dict(message) for message in request.messages]
    for number in range(max_rounds + 1):
        asked = replace(request, messages=tuple(messages), tools=toolbox.schemas)
        answer = await _round(ctx, model, asked, show, number)
        if not answer.calls:
            if answer.text or show is None:
                return answer.text
            continue  # neither a text nor a call: asked once more
        if show is not None:
            for call in answer.calls:
                await show.thought(f"Running the {call.name} tool...")
        results = await _results(toolbox, answer.calls, number)
        messages.append({"role": "assistant", "content": "", "tool_calls": calls_as_messages(answer.calls)})
        for call, result in zip(answer.calls, results, strict=True):
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    messages.append({"role": "user", "content": f"Exceed max rounds: {max_rounds}"})
    return (await _round(ctx, model, replace(request, messages=tuple(messages)), show, max_rounds + 1)).text


async def _round(ctx: RunContext, model: ChatModel, request: ChatRequest, show: Show | None, number: int) -> ChatAnswer:
    """Ask the model once, as a step; a stored answer is shown again."""
    is_fresh = False

    async def call() -> JsonValue:
        nonlocal is_fresh
        is_fresh = True
        before = ctx.usage
        answer = await ask(ctx, model, request, show)
        used = [a - b for a, b in zip(ctx.usage, before, strict=True)]
        return {"text": answer.text, "calls": [list(c) for c in answer.calls], "usage": used}

    stored: Any = await ctx.step("model", [number, len(request.messages)], call, position=f"round {number}")
    if not is_fresh and show is not None:
        await show.again(stored["text"])
    return ChatAnswer(stored["text"], tuple(ToolCall(*c) for c in stored["calls"]))


async def _results(toolbox: Toolbox, calls: tuple[ToolCall, ...], number: int) -> list[str]:
    """Call all tools of a round, some at the same time; give the results in the order of the calls."""
    permits = asyncio.Semaphore(MAX_AT_ONCE)

    async def one(index: int, call: ToolCall) -> str:
        async with permits:
            return await toolbox.call(call, f"{number}.{index}")

    async with asyncio.TaskGroup() as running:
        tasks = [running.create_task(one(index, call)) for index, call in enumerate(calls)]
    return [task.result() for task in tasks]
