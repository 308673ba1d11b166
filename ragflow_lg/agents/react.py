"""ReAct: the model writes what it thinks and which tool it wants as text, for models that call no tools themselves."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from ragflow_lg.agents.agent_run import AgentRun, joined, told
from ragflow_lg.agents.react_action import WrittenCall
from ragflow_lg.agents.react_text import ReactReader, Said
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.thinking import AnswerPart, split_thinking, strip_thinking
from ragflow_lg.models.model_call import AnswerStream
from ragflow_lg.models.structured_answer import append_schema
from ragflow_lg.services.chat import ToolCall, ToolSchema

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext

__all__ = ["REACT_HEAD", "called_tool", "react", "react_system"]

logger = logging.getLogger(__name__)

REACT_HEAD = "You can use tools. Work step by step, in plain text, and write each step in exactly this form:"
"""First words of the instructions, behind the system prompt of the canvas."""

_FORM = """

Thought: what you know, what is missing, what to do next
Action: the name of one tool
Action Input: its arguments, one JSON object

Then stop. What the tool gives comes to you behind `Observation:`; never write an observation yourself. To use several \
tools at the same time, write one pair of Action and Action Input below the other. When you know enough, or when no \
tool can help, write this instead:

Thought: why this is enough
Final Answer: the whole answer for the user, in the language of the question

The tools:
"""
_SCHEMA = "\n\nFor what stands behind `Final Answer:`, and for nothing else, this holds as well."
_GO_ON = "Go on: write either an Action with its Action Input, or the Final Answer."
_LAST = "No tool can be used any more. Write the Final Answer now, from what you know by now."
STOP = ("\nObservation:", "\n观察：")
_BLOCK_CHARS = 4096
"""Longer texts are read piece by piece, or in a thread."""
_NUMBER = re.compile(r"_\d+$")
_NOTHING = frozenset(["", "none", "null", "n/a", "无"])


async def react(run: AgentRun) -> str:
    """Let the model think, act and observe until it answers; behind the last round it has to. Give the answer."""
    request = replace(run.request, system=react_system(run), schema=None)
    messages: list[dict[str, str]] = [dict(message) for message in run.request.messages]
    number, can_stop = 0, True
    while True:
        is_last = number > run.max_rounds or await run.is_spent(f"round {number}")
        show = _ReactShow(run.ctx, run.show, is_last=is_last)
        last = joined(messages, "user", _LAST) if is_last else messages
        asked = run.told_to_cite(replace(request, messages=tuple(last), stop=STOP if can_stop and not is_last else ()))
        try:
            answer = await run.ask(asked, f"round {number}", show if run.show else None)
        except ServiceError as error:
            if not (asked.stop and _is_about_stopping(error)):
                raise
            logger.info("The model takes no stop words; the agent goes on without: %s", error)
            can_stop = False
            continue
        reader = await show.read(answer.text)
        if is_last or reader.answer:
            return reader.answer or ""
        messages = joined(messages, "assistant", _unit(reader))
        messages = joined(messages, "user", await _observed(run, reader.calls, str(number)))
        number += 1


def react_system(run: AgentRun) -> str:
    """Give the system prompt with the form, the tools, and the schema of the answer."""
    tools = "\n".join(_described(tool) for tool in run.toolbox.schemas)
    system = f"{run.request.system}\n\n{REACT_HEAD}{_FORM}\n{tools}".lstrip()
    return append_schema(system + _SCHEMA, run.schema) if run.schema is not None else system


def _described(tool: ToolSchema) -> str:
    arguments = json.dumps(tool.parameters, ensure_ascii=False)
    return f"- {tool.name}: {' '.join(tool.description.split())}\n  Arguments, as a JSON schema: {arguments}"


def _is_about_stopping(error: ServiceError) -> bool:
    """Whether an endpoint refuses stop words, as those of some reasoning models do."""
    return not error.is_retryable and "stop" in str(error).lower()


def _unit(reader: ReactReader) -> str:
    """Write a step as it is to stand in the conversation: without what the model made up behind it."""
    thought = [f"Thought: {reader.thought}"] if reader.thought or not reader.calls else []
    calls = [f"Action: {call.name}\nAction Input: {call.input or '{}'}" for call in reader.calls]
    return "\n".join([*thought, *calls])


async def _observed(run: AgentRun, written: Sequence[WrittenCall], position: str) -> str:
    """Call the tools of a step; give the message that tells what came."""
    if not written:
        return _GO_ON
    calls = [called_tool(call, run.toolbox.schemas, f"{position}.{index}") for index, call in enumerate(written)]
    outcomes = await run.call(calls, position)
    if len(outcomes) == 1:
        return f"Observation: {told(outcomes[0].value)}"
    named = zip(calls, outcomes, strict=True)
    return "\n".join(f"Observation of {call.name}: {told(outcome.value)}" for call, outcome in named)


def called_tool(written: WrittenCall, tools: Sequence[ToolSchema], id_: str) -> ToolCall:
    """Find the tool that is meant, with its number or without; a text becomes its first argument.

    A name that none has stays, so that the model is told.
    """
    tool = _find(written.name, tools)
    return ToolCall(id_, tool.name if tool else written.name, _arguments(written.input.strip(), tool))


def _find(name: str, tools: Sequence[ToolSchema]) -> ToolSchema | None:
    plain = name.casefold()
    for wanted in (plain, plain.replace(" ", "_"), (plain.split() or [""])[0].rstrip(".:,")):
        for tool in tools:
            if wanted == tool.name.casefold():
                return tool
        for tool in tools:
            if wanted == _NUMBER.sub("", tool.name).casefold():
                return tool
    return None


def _arguments(text: str, tool: ToolSchema | None) -> str:
    """Give arguments as JSON, which may still have to be mended."""
    if text.startswith("{"):
        return text
    if text.casefold() in _NOTHING:
        return "{}"
    parameters: Mapping[str, Any] = tool.parameters if tool else {}
    properties = cast("Mapping[str, Mapping[str, Any]]", parameters.get("properties") or {})
    name = next(iter([*cast("list[str]", parameters.get("required") or []), *properties]), "input")
    value: Any = text
    if text.startswith("[") and properties.get(name, {}).get("type") != "string":
        with suppress(ValueError, RecursionError):
            value = json.loads(text)
    return json.dumps({name: value}, ensure_ascii=False)


class _ReactShow:
    """Shows of an answer in ReAct's form the thoughts as thoughts and the final answer as it comes."""

    def __init__(self, ctx: RunContext, show: AnswerStream | None, *, is_last: bool) -> None:
        self._ctx = ctx
        self._show = show
        self._reader = ReactReader(is_last=is_last)
        self._is_thinking = False
        self._has_thought = False

    @property
    def text(self) -> str:
        return self._show.text if self._show else ""

    def begin(self) -> None:
        if self._show:
            self._show.begin()

    async def write(self, parts: Iterable[AnswerPart]) -> None:
        for part in parts:
            if part.mark:
                self._is_thinking = part.mark == "start"
            if not part.mark and not self._is_thinking:
                for at in range(0, len(part.text), _BLOCK_CHARS):
                    if at:
                        await asyncio.sleep(0)  # a long text holds nobody else up
                    await self._say(self._reader.feed(part.text[at : at + _BLOCK_CHARS]))
            elif self._show:
                await self._show.write([part])

    async def replay(self, text: str) -> None:
        self.begin()
        await self.write(split_thinking(text))

    async def read(self, text: str) -> ReactReader:
        """End the answer; it is ``text``, where it was not shown."""
        if len(text) > _BLOCK_CHARS:
            await self._say(await self._ctx.run_in_thread(self._finish, text))
        else:
            await self._say(self._finish(text))
        if self._has_thought and self._reader.calls and self._show:
            await self._show.write_thought("\n")
        return self._reader

    def _finish(self, text: str) -> list[Said]:
        if self._show is None:
            self._reader.feed(strip_thinking(text))
        return self._reader.finish()

    async def _say(self, pieces: Iterable[Said]) -> None:
        for kind, text in pieces:
            if self._show is None:
                continue
            if kind == "answer":
                await self._show.write([AnswerPart(text)])
            else:
                self._has_thought = True
                await self._show.write_thought(text)
