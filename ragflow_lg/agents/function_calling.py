"""Function calling: the model asks for calls, gets their results, and so on until it answers.

Source: RAGFlow's ``rag/llm/chat_model.py``.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ragflow_lg.agents.agent_run import AgentRun, told
from ragflow_lg.agents.toolbox import shown_name

__all__ = ["call_functions"]


async def call_functions(run: AgentRun) -> str:
    """Let the model call tools until it answers; behind the last round it has to. Give the answer."""
    messages: list[dict[str, Any]] = [dict(message) for message in run.request.messages]
    number = 0
    while number <= run.max_rounds and not await run.is_spent(f"round {number}"):
        asked = replace(run.request, messages=tuple(messages), tools=run.toolbox.schemas)
        answer = await run.ask(run.told_to_cite(asked), f"round {number}", run.show)
        number += 1
        if not answer.calls:
            if answer.text or run.show is None:
                return answer.text
            continue  # neither a text nor a call: asked once more
        outcomes = await run.call(answer.calls, str(number - 1))
        calls = [{**call._asdict(), "name": shown_name(call.name)} for call in answer.calls]
        messages.append({"role": "assistant", "content": "", "tool_calls": calls})
        for call, outcome in zip(answer.calls, outcomes, strict=True):
            messages.append({"role": "tool", "tool_call_id": call.id, "content": told(outcome.value)})
    limit = f"Exceed max rounds: {run.max_rounds}" if number > run.max_rounds else "The budget of tokens is used up."
    messages.append({"role": "user", "content": limit})
    last = replace(run.request, messages=tuple(messages))
    return (await run.ask(run.told_to_cite(last), f"round {number}", run.show)).text
