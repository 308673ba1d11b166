"""One visit of an agent: what its strategies share.

A strategy is a function of an `AgentRun`: it asks the model and calls tools through it, and gives the answer. Each
round of the model and each call of a tool is a step there, so a strategy needs no thought of crashes: run again, it
takes the same way through the stored results up to where it was.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from ragflow_lg.agents.agent_log import agent_log_of
from ragflow_lg.agents.agent_result import Gathered
from ragflow_lg.agents.agent_tool import Outcome
from ragflow_lg.agents.context_window import with_room
from ragflow_lg.agents.toolbox import Toolbox, read_arguments, shown_name
from ragflow_lg.base.errors import RagflowLgError, RunCancelled
from ragflow_lg.base.values import JsonValue
from ragflow_lg.models.model_call import AnswerSink, AnswerStream, ask
from ragflow_lg.services.chat import ChatAnswer, ChatModel, ChatRequest, ToolCall, Usage
from ragflow_lg.services.token_budget import count_tokens

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext

__all__ = ["AgentRun", "joined", "told"]

MAX_CALLS = 128
"""How many calls of one round are made; the model is told of the others."""

MAX_AT_ONCE = 16
"""How many calls of one round run at the same time."""


class AgentRun(Struct, frozen=True):
    """What a strategy has: the request to start from, the model, the tools, and whom to show the answer.

    After ``max_rounds`` + 1 rounds with tools, or once the budget of ``ctx`` is used up, it has to answer without.
    """

    ctx: RunContext
    model: ChatModel
    request: ChatRequest
    toolbox: Toolbox
    max_rounds: int
    show: AnswerStream | None = None
    """Shows the answer as it comes; None to give it whole."""
    schema: Mapping[str, Any] | None = None
    """What the answer has to match, where ``request`` does not say it yet."""
    guidelines: str = ""
    """What the model is to be told about citations once there is something to cite."""
    sections: Mapping[str, str] = field(default_factory=dict[str, str])
    """Prompts of the canvas that take the place of a strategy's own, by name in capitals."""
    gathered: Gathered = field(default_factory=Gathered)

    async def play(self, strategy: Callable[[AgentRun], Awaitable[str]]) -> str:
        """Let a strategy find the answer; tell at the end what it took."""
        agent_log_of(self.ctx)
        try:
            return await strategy(self)
        finally:
            await agent_log_of(self.ctx).finish()

    async def thought(self, text: str) -> None:
        """Record a thought that a strategy found in an answer, where it is not marked with tags."""
        await agent_log_of(self.ctx).thought(text)

    async def is_spent(self, position: str) -> bool:
        """Tell whether the budget is used up; at one position the same again behind a crash."""
        budget = self.ctx.budget
        if not budget.is_shared:
            return budget.is_spent

        async def look() -> JsonValue:
            return budget.is_spent

        return bool(await self.ctx.step("is spent", None, look, position=f"spent at {position}"))

    def told_to_cite(self, request: ChatRequest) -> ChatRequest:
        """Give a request for an answer, with the guidelines for citations if there is something to cite by now."""
        if not self.guidelines or not self.ctx.references["chunks"]:
            return request
        return replace(request, system=f"{request.system}\n\n{self.guidelines}".lstrip())

    async def ask(self, request: ChatRequest, position: str, show: AnswerSink | None = None) -> ChatAnswer:
        """Ask the model once. ``position`` tells the round from others of the visit; a stored answer is shown again."""
        is_fresh = False
        if self.ctx.refusals:
            position = f"attempt {self.ctx.refusals + 1}, {position}"
        request = with_room(request, len(self.request.messages), self.model.context_tokens)
        iteration = agent_log_of(self.ctx).iteration(self.model, position)

        async def call() -> JsonValue:
            nonlocal is_fresh
            is_fresh = True
            await iteration.begin()
            answer = await ask(self.ctx, self.model, request, show)
            calls, usage = [list(c) for c in answer.calls], list(answer.usage)
            return {"text": answer.text, "calls": calls, "usage": usage, "seconds": iteration.seconds}

        try:
            stored: Any = await self.ctx.step("model", len(request.messages), call, position=position)
        except RunCancelled:
            raise
        except RagflowLgError as error:
            await iteration.fail(error)
            raise
        answer = ChatAnswer(stored["text"], tuple(ToolCall(*c) for c in stored["calls"]), Usage(*stored["usage"]))
        await iteration.end(answer, stored.get("seconds", 0.0))
        if not is_fresh:
            self.ctx.count(answer.usage)
            if show is not None:
                await show.replay(answer.text)
        if self.ctx.budget.is_limited:
            self.ctx.budget.take(position, count_tokens(request, answer), is_charged=is_fresh)
        return answer

    async def call(self, calls: Sequence[ToolCall], position: str) -> list[Outcome]:
        """Call all tools of a round, some at the same time; give what came in the order of the calls."""
        calls = [call._replace(name=shown_name(call.name)) for call in calls]
        if self.show is not None:
            for call in calls[:MAX_CALLS]:
                await self.show.write_thought(f"Running the {call.name} tool...")
        permits = asyncio.Semaphore(MAX_AT_ONCE)

        async def one(index: int, call: ToolCall) -> Outcome:
            async with permits:
                return await self._call(call, index, f"{position}.{index}")

        try:
            async with asyncio.TaskGroup() as running:
                tasks = [running.create_task(one(index, call)) for index, call in enumerate(calls[:MAX_CALLS])]
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        too_many = Outcome(f"This call was not made: a round may have {MAX_CALLS} calls.", is_error=True)
        outcomes = [*(task.result() for task in tasks), *([too_many] * (len(calls) - len(tasks)))]
        for call, outcome in zip(calls, outcomes, strict=True):
            self.gathered.add_call(call, outcome)
        return outcomes

    async def _call(self, call: ToolCall, index: int, step: str) -> Outcome:
        """Call one tool and record it."""
        log = agent_log_of(self.ctx).tool(call.name, index, step, call.id)
        outcome = await self.toolbox.call(call, step, log.begin)
        was_called = log.is_begun
        is_replayed = step in self.ctx.replayed_steps
        if not was_called:
            title = self.toolbox.title(call.name)
            await log.begin(title or "", read_arguments(call.arguments), is_replayed=is_replayed)
        await log.end(outcome, was_called=was_called or is_replayed, is_replayed=is_replayed)
        return outcome


def joined(messages: Sequence[Mapping[str, str]], role: str, content: str) -> list[dict[str, str]]:
    """Add a message; to one of the same role, since some endpoints want roles to take turns."""
    held = [dict(message) for message in messages]
    if held and held[-1]["role"] == role:
        held[-1]["content"] += f"\n\n{content}"
        return held
    return [*held, {"role": role, "content": content}]


def told(value: JsonValue) -> str:
    """Write a tool's result for the model: a text as it is, everything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)
