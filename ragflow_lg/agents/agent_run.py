"""One execution of an agent: the code shared by all strategies.

A strategy is a function that receives an `AgentLoop`, asks the model and calls tools by it, and returns the answer.
Each model round and each tool call is a stored step, so a strategy need not handle crashes: if the visit runs again,
the strategy follows the same path through the stored results up to the point of the crash.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from ragflow_lg.agents.agent_log import agent_log_of
from ragflow_lg.agents.agent_tool import Outcome
from ragflow_lg.agents.call_arguments import read_arguments, repair_calls
from ragflow_lg.agents.research_budget import ResearchLimits
from ragflow_lg.agents.toolbox import Toolbox
from ragflow_lg.agents.written_calls import WrittenCallFilter, find_unread_call, read_written_calls
from ragflow_lg.base.errors import ApprovalNeeded, RagflowLgError, RunCancelled, ServiceError
from ragflow_lg.base.thinking import AnswerPart, split_answer
from ragflow_lg.base.tokens import estimate_tokens, shorten
from ragflow_lg.base.values import MAX_CHARS, JsonValue, to_text
from ragflow_lg.base.worker_tasks import measure
from ragflow_lg.component.decorator import RunContext
from ragflow_lg.models.answer_checks import check_end, is_empty
from ragflow_lg.models.answer_stream import AnswerSink, AnswerStream
from ragflow_lg.models.engine_prompts import engine_prompt, prompt_text
from ragflow_lg.models.model_call import ask, join_guidelines
from ragflow_lg.models.prompts import CONTEXT_SHARE
from ragflow_lg.models.structured_answer import append_schema
from ragflow_lg.services.chat import ChatAnswer, ChatModel, ChatRequest, ToolCall, Usage, count_tokens


def make_thought_sink(run: AgentLoop, *, is_text_shown: bool = True) -> ThoughtSink | None:
    """Return a sink for a run's thoughts, or None if the run does not stream."""
    return None if run.stream is None else ThoughtSink(run.stream, is_text_shown=is_text_shown)


class ThoughtSink:
    """Shows a model answer as a thought, either all of it or only its thinking sections."""

    def __init__(self, stream: AnswerStream, *, is_text_shown: bool) -> None:
        self._stream = stream
        self._is_text_shown = is_text_shown
        self._is_thinking = False

    @property
    def text(self) -> str:
        """The text shown so far."""
        return self._stream.text

    def begin(self) -> None:
        """Start another answer."""
        self._stream.begin()
        self._is_thinking = False

    async def write(self, parts: Iterable[AnswerPart]) -> None:
        """Show parts of the answer."""
        for part in parts:
            if part.mark:
                self._is_thinking = part.mark == "start"
            elif self._is_text_shown or self._is_thinking:
                await self._stream.write_thought(part.text)

    async def replay(self, text: str) -> None:
        """Show a complete answer, including tags, from before a crash."""
        self.begin()
        await self.write(split_answer(text))


TRUNCATION_MARK = " … (truncated)"
"""End of a truncated message."""

_MIN_TOKENS = 100


def fit_context_window(request: ChatRequest, first: int, context_tokens: int) -> ChatRequest:
    """Truncate the longest messages, starting at index ``first``, until the request fits into 97% of the context.

    Earlier messages have already been truncated to fit. No message is truncated below 100 tokens, so the request may
    still exceed the limit.
    """
    tools = sum(estimate_tokens(json.dumps([t.name, t.description, t.parameters])) for t in request.tools)
    room = int(context_tokens * CONTEXT_SHARE) - estimate_tokens(request.system) - tools
    sizes = [estimate_tokens(message["content"]) for message in request.messages]
    if sum(sizes) <= room:
        return request
    messages: list[dict[str, Any]] = [dict(message) for message in request.messages]
    while sum(sizes) > room and first < len(sizes):
        longest = max(range(first, len(sizes)), key=sizes.__getitem__)
        if sizes[longest] <= _MIN_TOKENS:
            break
        size = max(_MIN_TOKENS // 2, sizes[longest] - (sum(sizes) - room) - estimate_tokens(TRUNCATION_MARK))
        messages[longest]["content"] = shorten(messages[longest]["content"], size) + TRUNCATION_MARK
        sizes[longest] = estimate_tokens(messages[longest]["content"])
    return replace(request, messages=tuple(messages))


_MARKDOWN = str.maketrans({character: f"\\{character}" for character in "[]\\`"} | {"\n": " ", "\r": " "})


class AgentResult(Struct):
    """The tool calls and files of one visit, in a fixed order, so that a resumed visit yields the same ones."""

    calls: dict[str, dict[str, JsonValue]] = field(default_factory=dict[str, Any])
    """``{name, arguments, results}`` of each call by its key, in the order in which the model requested them."""
    artifacts: list[Mapping[str, JsonValue]] = field(default_factory=list[Mapping[str, Any]])
    """Files that tools created, without duplicates."""

    @property
    def use_tools(self) -> list[dict[str, JsonValue]]:
        """The calls, in order."""
        return [*self.calls.values()]

    def add_call(self, position: str, call: ToolCall, outcome: Outcome) -> None:
        """Add a tool call. If a further attempt repeats a call at the same position, its result was only restored."""
        arguments = read_arguments(call.arguments)
        key = f"{position} {call.name} {call.arguments}"
        self.calls[key] = {"name": call.name, "arguments": arguments, "results": outcome.value}
        self.artifacts += [artifact for artifact in outcome.artifacts if artifact not in self.artifacts]

    def links(self, answer: str) -> str:
        """Return links to append to an answer, for the files that it does not link to; ``""`` if there are none."""
        links = dict.fromkeys(link for artifact in self.artifacts if (link := _link(artifact)))
        return "".join(f"\n\n{link}" for link in links if link not in answer)


def agent_result_of(ctx: RunContext) -> AgentResult:
    """Return the calls and files of this visit, including those of earlier attempts."""
    if not isinstance(ctx.agent_result, AgentResult):
        ctx.agent_result = AgentResult()
    return ctx.agent_result


def _link(artifact: Mapping[str, JsonValue]) -> str:
    """Return a file as Markdown: an embedded image or a download link; ``""`` if its URL is invalid."""
    name = to_text(artifact.get("name")).translate(_MARKDOWN).strip() or "file"
    url = quote(to_text(artifact.get("url")), safe="/:?#[]@!$&'*+,;=%~-._")
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    if not (parts.scheme in ("http", "https") and parts.netloc) and not (not parts.scheme and url.startswith("/")):
        return ""
    is_image = to_text(artifact.get("mime_type")).startswith("image/")
    return f"![{name}]({url})" if is_image else f"[Download {name}]({url})"


MAX_CALLS = 128
"""Maximum number of calls per round; any further calls are refused."""

MAX_CONCURRENT_CALLS = 16
"""Maximum number of calls in one round that run at the same time."""


class AgentLoop(Struct, frozen=True):
    """The input of a strategy: the first request, the model, the tools, and where to show the answer.

    After ``max_rounds`` + 1 rounds with tools, or once the budget of ``ctx`` is used up, a strategy must answer without
    tools.
    """

    ctx: RunContext
    model: ChatModel
    request: ChatRequest
    toolbox: Toolbox
    max_rounds: int
    stream: AnswerStream | None = None
    """Streams the answer; None to return it as a whole."""
    schema: Mapping[str, Any] | None = None
    """The answer schema, unless ``request`` already includes it."""
    guidelines: str = ""
    """Citation instructions, added once there is something to cite."""
    sections: Mapping[str, str] = field(default_factory=dict[str, str])
    """Canvas prompts that replace a strategy's own, by upper-case name."""
    research: ResearchLimits = field(default_factory=ResearchLimits)
    """Additional limits of the strategy ``deep_research``."""

    @property
    def result(self) -> AgentResult:
        """The tool calls and files of the visit so far."""
        return agent_result_of(self.ctx)

    async def play(self, strategy: Callable[[AgentLoop], Awaitable[str]]) -> str:
        """Run a strategy and emit its metrics at the end."""
        agent_log_of(self.ctx)
        try:
            return await strategy(self)
        finally:
            await agent_log_of(self.ctx).finish()

    async def is_spent(self, position: str) -> bool:
        """Return whether the token budget is used up. The stored result is reused when a visit resumes."""
        budget = self.ctx.budget
        if not budget.is_shared:
            return budget.is_spent

        async def look() -> JsonValue:
            return budget.is_spent

        return bool(await self.ctx.step("is spent", None, look, position=f"spent at {position}"))

    def with_guidelines(self, request: ChatRequest) -> ChatRequest:
        """Return a request for an answer, with the citation guidelines if there is now something to cite."""
        if not self.guidelines or not self.ctx.references["chunks"]:
            return request
        return replace(request, system=join_guidelines(self.ctx, request.system, self.guidelines))

    async def ask(
        self,
        request: ChatRequest,
        position: str,
        stream: AnswerSink | None = None,
        *,
        is_kept: bool = False,
        is_written: bool = False,
    ) -> ChatAnswer:
        """Ask the model once. ``position`` identifies the round within the visit; a stored answer is shown again.

        After an unusable final answer, the next attempt asks again, unless the answer ``is_kept``. Calls that the
        prompt lets the model write as text (``is_written``) may name unknown tools.
        """
        is_fresh = False
        if self.ctx.refusals and not is_kept:
            position = f"attempt {self.ctx.refusals + 1}, {position}"
        request = self._fit(whole := request)
        iteration = agent_log_of(self.ctx).new_iteration(self.model, position)
        names = None if is_written else [tool.name for tool in request.tools]
        held = WrittenCallFilter(stream, names) if names != [] and stream is not None else None
        stream = held or stream

        async def call() -> JsonValue:
            nonlocal is_fresh
            is_fresh = True
            await iteration.begin()
            try:
                answer = await ask(self.ctx, self.model, request, stream)
            except ServiceError:
                if (shorter := self._fit(whole)) == request:
                    raise
                answer = await ask(self.ctx, self.model, shorter, stream)  # the refusal has told the window
            calls: list[JsonValue] = [[*call] for call in answer.calls]
            usage: list[JsonValue] = [*answer.usage]
            seconds = iteration.seconds
            return {"text": answer.text, "calls": calls, "usage": usage, "seconds": seconds, "end": answer.end}

        try:
            stored: Any = await self.ctx.step("model", len(request.messages), call, position=position)
        except RunCancelled:
            raise
        except RagflowLgError as error:
            await iteration.fail(error)
            raise
        end = stored.get("end", "")
        calls = tuple(ToolCall(*call) for call in stored["calls"])
        if names != [] and not calls:
            calls = await self._read_written(stored["text"], names, held if is_fresh else None)
        calls = await self.repair(calls, is_cut=end == "length")
        answer = ChatAnswer(stored["text"], calls, Usage(*stored["usage"]), end)
        check_end(self.ctx, answer)
        await iteration.end(answer, stored.get("seconds", 0.0))
        if not is_fresh:
            self.ctx.count(answer.usage)
            if stream is not None:
                await stream.replay(answer.text)
        if self.ctx.budget.is_limited:
            self.ctx.budget.charge_step(position, count_tokens(request, answer), is_charged=is_fresh)
        return answer

    def _fit(self, request: ChatRequest) -> ChatRequest:
        """Return a request whose results of tools fit into the model's context."""
        tokens = self.model.context_tokens
        fitted = fit_context_window(request, len(self.request.messages), tokens)
        if fitted is not request:
            self.ctx.notice(f"Results of tools were truncated to fit into the model's context of {tokens:,} tokens.")
        return fitted

    async def _read_written(
        self, text: str, names: Sequence[str] | None, held: WrittenCallFilter | None
    ) -> tuple[ToolCall, ...]:
        """Return the calls that an answer contains as text; show and report text that only looks like calls."""
        calls = read_written_calls(text, names)
        if calls:
            return calls
        if held is not None:
            await held.release()
        if names is not None and (sign := find_unread_call(text, names)):
            self.ctx.notice(
                f"The model's answer contains {sign}, which looks like a tool call that its server did not read. "
                "Enable the server's parser for tool calls, or set has_tools = false for this model."
            )
        return ()

    async def ask_for_answer(self, request: ChatRequest, position: str) -> str:
        """Ask for the final answer, and once more if it is empty; return it."""
        answer = await self.ask(request, position, self.stream)
        if is_empty(answer) and not self.ctx.compatibility.old_values:
            answer = await self.ask(request, f"{position} again", self.stream)
        return answer.text

    async def repair(self, calls: Sequence[ToolCall], *, is_cut: bool = False) -> tuple[ToolCall, ...]:
        """Return calls that can be made; see `ragflow_lg.agents.call_arguments.repair_calls`."""
        return await repair_calls(calls, self.ctx.services.workers, is_cut=is_cut)

    async def call(self, calls: Sequence[ToolCall], position: str, *, is_search: bool = False) -> list[Outcome]:
        """Call all tools in a round concurrently; return the outcomes in call order. The calls have been repaired.

        The caller of a search shows its queries and cites its chunks itself.
        """
        if self.stream is not None and not is_search and not self._was_announced(position):
            for call in calls[:MAX_CALLS]:
                await self.stream.write_thought(f"Running the {call.name} tool...")
        slots = asyncio.Semaphore(MAX_CONCURRENT_CALLS)

        async def one(index: int, call: ToolCall) -> Outcome | ApprovalNeeded:
            async with slots:
                try:
                    return await self._call(call, index, f"{position}.{index}", cites=not is_search)
                except ApprovalNeeded as needed:
                    return needed  # the others go on: their results are stored, and the user is asked about all at once

        try:
            async with asyncio.TaskGroup() as running:
                tasks = [running.create_task(one(index, call)) for index, call in enumerate(calls[:MAX_CALLS])]
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        outcomes: list[Outcome] = []
        for task in tasks:
            if isinstance(result := task.result(), ApprovalNeeded):
                raise result
            outcomes.append(result)
        refusal = Outcome(f"This call was not made: at most {MAX_CALLS} calls are allowed per round.", is_error=True)
        outcomes += [refusal] * (len(calls) - len(tasks))
        for index, (call, outcome) in enumerate(zip(calls, outcomes, strict=True)):
            self.ctx.charge_chars(measure(outcome.value, MAX_CHARS))
            self.result.add_call(f"{position}.{index}", call, outcome)
        return outcomes

    def _was_announced(self, position: str) -> bool:
        """Return whether an earlier attempt has shown the calls of a round, and what it has shown stays."""
        is_continued = self.stream is not None and self.stream.is_continued
        return is_continued and f"round {position}" in self.ctx.replayed_steps

    async def _call(self, call: ToolCall, index: int, step: str, *, cites: bool) -> Outcome:
        """Call one tool and log it."""
        log = agent_log_of(self.ctx).new_tool_call(call.name, index, step, call.id)
        outcome = await self.toolbox.call(call, step, log.begin, cites=cites)
        was_called = log.has_begun
        is_replayed = step in self.ctx.replayed_steps
        if not was_called:
            title = self.toolbox.title(call.name)
            await log.begin(title or "", read_arguments(call.arguments), is_replayed=is_replayed)
        await log.end(outcome, was_called=was_called or is_replayed, is_replayed=is_replayed)
        return outcome


def final_prompt(ctx: RunContext, reason: str = "") -> str:
    """Return the user message that asks for the final answer without tools."""
    return engine_prompt(ctx, "final_answer", reason=reason).strip()


def request_schema(run: AgentLoop, request: ChatRequest) -> ChatRequest:
    """Return the request for the final answer, with the run's answer schema if it has one."""
    if run.schema is None:
        return request
    if run.model.has_schemas:
        return replace(request, schema=run.schema)
    system = append_schema(request.system, run.schema, prompt_text(run.ctx, "structured_output"))
    return replace(request, system=system, schema=run.schema if getattr(run.model, "tries_schemas", False) else None)


def append_message(messages: Sequence[Mapping[str, str]], role: str, content: str) -> list[dict[str, str]]:
    """Append a message, or merge it into the last one if the roles match: some endpoints require alternating roles."""
    copies = [dict(message) for message in messages]
    if copies and copies[-1]["role"] == role:
        copies[-1]["content"] += f"\n\n{content}"
        return copies
    return [*copies, {"role": role, "content": content}]


def result_text(value: JsonValue, *, is_old: bool = False) -> str:
    """Return a tool's result as the model sees it: text unchanged, None as ``""``, anything else as JSON.

    With ``is_old``, a list is written in Python's notation.
    """
    if isinstance(value, str):
        return value
    if is_old and isinstance(value, list):
        return str(value)
    return "" if value is None else json.dumps(value, ensure_ascii=False)
