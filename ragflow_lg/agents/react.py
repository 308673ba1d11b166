"""ReAct, for models without native tool calls: the model writes its thoughts and tool calls as text."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from msgspec.structs import replace

from ragflow_lg.agents.agent_run import AgentLoop, append_message, result_text
from ragflow_lg.agents.react_action import WrittenCall
from ragflow_lg.agents.react_text import AnswerPiece, ReactReader
from ragflow_lg.agents.written_calls import read_written_calls
from ragflow_lg.base.errors import ForeignJsonError, ServiceError
from ragflow_lg.base.json_scanner import parse_foreign_json
from ragflow_lg.base.thinking import AnswerPart, split_answer, strip_thinking
from ragflow_lg.component.decorator import RunContext
from ragflow_lg.models.engine_prompts import engine_prompt, prompt_text
from ragflow_lg.models.model_call import AnswerStream
from ragflow_lg.models.structured_answer import append_schema
from ragflow_lg.services.chat import AnswerEnd, ToolCall, ToolSchema

logger = logging.getLogger(__name__)

_SCHEMA_HEAD = "\n\nThe following applies only to the text after `Final Answer:`."
STOP = ("\nObservation:", "\n观察：")
_BLOCK_CHARS = 4096
"""Longer text is parsed in blocks or in a thread."""
_NUMBER = re.compile(r"_\d+$")
_NO_ARGUMENTS = frozenset(["", "none", "null", "n/a", "无"])


async def react(run: AgentLoop) -> str:
    """Run rounds of thought, action and observation; return the answer. The last request is made without tools."""
    request = replace(run.request, system=_system_prompt(run), schema=None)
    messages: list[dict[str, str]] = [dict(message) for message in run.request.messages]
    number, can_stop = 0, True
    while True:
        is_last = number > run.max_rounds or await run.is_spent(f"round {number}")
        sink = _ReactSink(run.ctx, run.stream, is_last=is_last)
        prompt = append_message(messages, "user", engine_prompt(run.ctx, "react_final")) if is_last else messages
        stop = STOP if can_stop and not is_last else ()
        step = run.with_guidelines(replace(request, messages=tuple(prompt), stop=stop))
        try:
            answer = await run.ask(step, f"round {number}", sink if run.stream else None)
        except ServiceError as error:
            if not (step.stop and _is_about_stopping(error)):
                raise
            logger.info("The model does not support stop words; the agent continues without them: %s", error)
            can_stop = False
            continue
        written = () if is_last else read_written_calls(answer.text, [tool.name for tool in run.toolbox.schemas])
        if written:  # the model's own notation, with nothing for the reader to show
            actions, text = [WrittenCall(call.name, call.arguments) for call in written], strip_thinking(answer.text)
        else:
            reader = await sink.read(answer.text)
            if is_last or reader.answer:
                return reader.answer or ""
            actions, text = reader.calls, _step_text(reader)
        messages = append_message(messages, "assistant", text)
        messages = append_message(messages, "user", await _observe(run, actions, str(number), answer.end))
        number += 1


def _system_prompt(run: AgentLoop) -> str:
    """Return the system prompt with the format, the tools and the answer schema."""
    tools = "\n".join(_describe(tool) for tool in run.toolbox.schemas)
    system = f"{run.request.system}\n\n{engine_prompt(run.ctx, 'react', tools=tools)}".lstrip()
    if run.schema is None:
        return system
    return append_schema(system + _SCHEMA_HEAD, run.schema, prompt_text(run.ctx, "structured_output"))


def _describe(tool: ToolSchema) -> str:
    arguments = json.dumps(tool.parameters, ensure_ascii=False)
    return f"- {tool.name}: {' '.join(tool.description.split())}\n  Arguments (JSON schema): {arguments}"


def _is_about_stopping(error: ServiceError) -> bool:
    """Return whether an endpoint rejects stop words, as the endpoints of some reasoning models do."""
    return not error.is_retryable and "stop" in str(error).lower()


def _step_text(reader: ReactReader) -> str:
    """Return a step for the conversation, without anything that the model invented after its actions."""
    thought = [f"Thought: {reader.thought}"] if reader.thought or not reader.calls else []
    calls = [f"Action: {call.name}\nAction Input: {call.input or '{}'}" for call in reader.calls]
    return "\n".join([*thought, *calls])


async def _observe(run: AgentLoop, actions: Sequence[WrittenCall], position: str, end: AnswerEnd) -> str:
    """Call the tools of a step; return the message with their results."""
    if not actions:
        return engine_prompt(run.ctx, "react_continue")
    written = [to_tool_call(call, run.toolbox.schemas, f"{position}.{index}") for index, call in enumerate(actions)]
    calls = await run.repair(written, is_cut=end == "length")
    outcomes = await run.call(calls, position)
    if len(outcomes) == 1:
        return f"Observation: {result_text(outcomes[0].value)}"
    pairs = zip(calls, outcomes, strict=True)
    return "\n".join(f"Observation of {call.name}: {result_text(outcome.value)}" for call, outcome in pairs)


def to_tool_call(action: WrittenCall, tools: Sequence[ToolSchema], id_: str) -> ToolCall:
    """Convert an action to a tool call: its name may lack the number, and plain text becomes the first argument.

    An unknown name stays unchanged, so that the model gets an error.
    """
    tool = _find(action.name, tools)
    return ToolCall(id_, tool.name if tool else action.name, _arguments(action.input.strip(), tool))


def _find(name: str, tools: Sequence[ToolSchema]) -> ToolSchema | None:
    plain = name.casefold()
    for candidate in (plain, plain.replace(" ", "_"), (plain.split() or [""])[0].rstrip(".:,")):
        for tool in tools:
            if candidate == tool.name.casefold():
                return tool
        for tool in tools:
            if candidate == _NUMBER.sub("", tool.name).casefold():
                return tool
    return None


def _arguments(text: str, tool: ToolSchema | None) -> str:
    """Return arguments as JSON, which may still need repair."""
    if text.startswith("{"):
        return text
    if text.casefold() in _NO_ARGUMENTS:
        return "{}"
    parameters: Mapping[str, Any] = tool.parameters if tool else {}
    properties = cast("Mapping[str, Mapping[str, Any]]", parameters.get("properties") or {})
    name = next(iter([*cast("list[str]", parameters.get("required") or []), *properties]), "input")
    value: Any = text
    if text.startswith("[") and properties.get(name, {}).get("type") != "string":
        with suppress(ForeignJsonError):
            value = parse_foreign_json(text)
    return json.dumps({name: value}, ensure_ascii=False)


class _ReactSink:
    """Shows an answer in ReAct format: thoughts as thoughts, and the final answer as it is generated."""

    def __init__(self, ctx: RunContext, stream: AnswerStream | None, *, is_last: bool) -> None:
        self._ctx = ctx
        self._stream = stream
        self._is_last = is_last
        self._reader = ReactReader(is_last=is_last)
        self._is_thinking = False
        self._has_thought = False

    @property
    def text(self) -> str:
        return self._stream.text if self._stream else ""

    def begin(self) -> None:
        if self._stream:
            self._stream.begin()

    async def write(self, parts: Iterable[AnswerPart]) -> None:
        for part in parts:
            if part.mark:
                self._is_thinking = part.mark == "start"
            if part.mark == "unopened":
                self._reader = ReactReader(is_last=self._is_last)
            if not part.mark and not self._is_thinking:
                for at in range(0, len(part.text), _BLOCK_CHARS):
                    if at:
                        await asyncio.sleep(0)  # do not block the event loop with long text
                    await self._show_pieces(self._reader.feed(part.text[at : at + _BLOCK_CHARS]))
            elif self._stream:
                await self._stream.write([part])

    async def replay(self, text: str) -> None:
        self.begin()
        await self.write(split_answer(text))

    async def read(self, text: str) -> ReactReader:
        """Finish the answer and return its reader. ``text`` is parsed here if it was not streamed."""
        await self._show_pieces(self._finish(text))
        if self._has_thought and self._reader.calls and self._stream:
            await self._stream.write_thought("\n")
        return self._reader

    def _finish(self, text: str) -> list[AnswerPiece]:
        if self._stream is None:
            self._reader.feed(strip_thinking(text))
        return self._reader.finish()

    async def _show_pieces(self, pieces: Iterable[AnswerPiece]) -> None:
        for kind, text in pieces:
            if self._stream is None:
                continue
            if kind == "answer":
                await self._stream.write([AnswerPart(text)])
            else:
                self._has_thought = True
                await self._stream.write_thought(text)
