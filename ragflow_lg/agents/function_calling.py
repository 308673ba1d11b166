"""Function calling: the model requests tool calls and receives their results until it answers.

Source: RAGFlow's ``rag/llm/chat_model.py``.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ragflow_lg.agents.agent_run import AgentRun, result_text
from ragflow_lg.agents.toolbox import truncate_name

__all__ = ["call_functions"]

_NO_TOKENS = "The token budget is used up. Give your final answer now."


async def call_functions(run: AgentRun) -> str:
    """Return the model's answer after it has called its tools; after the last round it must answer without them."""
    messages: list[dict[str, Any]] = [dict(message) for message in run.request.messages]
    number = 0
    while number <= run.max_rounds and not await run.is_spent(f"round {number}"):
        request = replace(run.request, messages=tuple(messages), tools=run.toolbox.schemas)
        answer = await run.ask(run.with_guidelines(request), f"round {number}", run.stream)
        number += 1
        if not answer.calls:
            if answer.text or run.stream is None:
                return answer.text
            continue  # neither text nor calls: ask again
        outcomes = await run.call(answer.calls, str(number - 1))
        calls = [{**call._asdict(), "name": truncate_name(call.name)} for call in answer.calls]
        messages.append({"role": "assistant", "content": "", "tool_calls": calls})
        for call, outcome in zip(answer.calls, outcomes, strict=True):
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result_text(outcome.value)})
    limit = f"Exceed max rounds: {run.max_rounds}" if number > run.max_rounds else _NO_TOKENS
    messages.append({"role": "user", "content": limit})
    last = replace(run.request, messages=tuple(messages))
    return (await run.ask(run.with_guidelines(last), f"round {number}", run.stream)).text
