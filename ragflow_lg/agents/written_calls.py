"""Tool calls that a model has written as text, because its server does not read them.

``<tool_call>{"name": …, "arguments": …}</tool_call>``, as Qwen and Hermes models write it, is a call if it names an
offered tool. Other notations are only reported: a text that merely shows a call must not make one. Models without tool
calls are asked for this notation; then everything in it is a call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, cast

from ragflow_lg.agents.call_arguments import read_arguments
from ragflow_lg.base.thinking import AnswerPart, is_shown, split_thoughts, strip_thinking
from ragflow_lg.models.answer_stream import AnswerSink
from ragflow_lg.services.chat import ToolCall

OPENING, CLOSING = "<tool_call>", "</tool_call>"
MAX_WRITTEN_CALLS = 64
UNREADABLE = "tool_call"
"""The name of a call that cannot be read. The model learns that there is no such tool."""
_OTHER_SIGNS = (
    OPENING,
    "[TOOL_CALLS]",
    "<function=",
    "<function_call>",
    "<|python_tag|>",
    "<|tool_call",
    "<invoke name=",
    "<｜tool▁call",
)
_NAMED_SIGNS = r"""
    ["'](?:name|tool|tool_name|function|action)["']\s*:\s*["']NAME["']
    | \bto=(?:functions\.)?NAME
    | \bfunctions\.NAME
    | ^\W{0,4}Action\W{1,6}NAME
    | ^[ `\[]*(?:print\()?(?:\w{1,32}\.)?NAME\(
    | <NAME>
    | <\w{1,32}\ name="NAME"
"""
"""Notations that are a sign only with the name of an offered tool."""
_ARGUMENTS = re.compile(r"""["'](?:arguments|parameters|args|\w{0,32}input|kwargs)["']\s*:""")
_MAX_SIGN_CHARS = 100
_MAX_SEARCHED_CHARS = 100_000
"""Calls stand at the end of an answer."""


def read_written_calls(answer: str, names: Collection[str] | None) -> tuple[ToolCall, ...]:
    """Return the calls in an answer; none unless all of them can be read and name an offered tool.

    Without ``names``, the model was asked to write calls: all are returned, for the model to learn what is wrong.

    >>> read_written_calls('<tool_call>{"name": "look", "arguments": {"q": 1}}</tool_call>', ["look"])
    (ToolCall(id='call_1', name='look', arguments='{"q": 1}'),)
    """
    sections = _sections(split_thoughts(answer)[1])
    calls = [_read(section) or (None if names is not None else (UNREADABLE, section)) for section in sections]
    if any(call is None or (names is not None and call[0] not in names) for call in calls):
        return ()
    known = cast("list[tuple[str, str]]", calls)
    return tuple(ToolCall(f"call_{number}", *call) for number, call in enumerate(known, 1))


def find_unread_call(answer: str, names: Collection[str]) -> str:
    """Return the sign of a call that an answer contains as text, or ``""``.

    >>> find_unread_call('{"name": "look", "parameters": {}}', ["look"]), find_unread_call('{"name": "Ada"}', ["look"])
    ('"name": "look"', '')
    """
    text = strip_thinking(answer)
    if sign := next((sign for sign in _OTHER_SIGNS if sign in text), ""):
        return sign
    either = "|".join(re.escape(name) for name in names)
    signs = re.compile(_NAMED_SIGNS.replace("NAME", rf"(?:{either})(?![\w-])"), re.MULTILINE | re.VERBOSE)
    text = text[-_MAX_SEARCHED_CHARS:]
    found = signs.search(text) if names else None
    if found is None or (found[0][0] in "\"'" and not _ARGUMENTS.search(text)):
        return ""
    return found[0].strip()[:_MAX_SIGN_CHARS]


def _sections(text: str) -> Iterator[str]:
    """Yield what stands between the tags. The last closing tag may be missing: it often ends an answer.

    Tags in code or in quotes are left out: they show a call.
    """
    at = 0
    for _ in range(MAX_WRITTEN_CALLS):
        start = text.find(OPENING, at)
        if start < 0:
            return
        end = text.find(CLOSING, start)
        at = end if end >= 0 else len(text)
        if not is_shown(text, start, at + len(CLOSING)):
            yield text[start + len(OPENING) : at]


def _read(section: str) -> tuple[str, str] | None:
    value = read_arguments(section.strip() or "?")
    if not isinstance(value, dict):
        return None
    call = cast("Mapping[str, Any]", value)
    name, arguments = call.get("name"), call.get("arguments", call.get("parameters"))
    if not isinstance(name, str):
        return None
    return name, arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)


class WrittenCallFilter:
    """Shows an answer, but holds back the part that may be a call until the answer is complete."""

    def __init__(self, stream: AnswerSink, names: Collection[str] | None) -> None:
        self._stream = stream
        self._names = names
        self._tail = ""
        """The possible beginning of an opening tag."""
        self._held: list[AnswerPart] = []
        self._is_thinking = False

    @property
    def text(self) -> str:
        """The text shown so far."""
        return self._stream.text

    def begin(self) -> None:
        """Start another answer."""
        self._stream.begin()
        self._tail, self._held, self._is_thinking = "", [], False

    async def write(self, parts: Iterable[AnswerPart]) -> None:
        """Show parts of the answer, up to an opening tag."""
        for part in parts:
            if self._held:
                self._held.append(part)
            elif part.mark or self._is_thinking:
                await self._show_tail()
                self._is_thinking = part.mark == "start" if part.mark else True
                await self._stream.write([part])
            else:
                await self._write_text(part)

    async def _write_text(self, part: AnswerPart) -> None:
        text, self._tail = self._tail + part.text, ""
        start = text.find(OPENING)
        if start < 0:
            sizes = range(min(len(OPENING) - 1, len(text)), 0, -1)
            start = len(text) - next((size for size in sizes if text.endswith(OPENING[:size])), 0)
            self._tail = text[start:]
        else:
            self._held = [part._replace(text=text[start:])]
        if start:
            await self._stream.write([part._replace(text=text[:start])])

    async def _show_tail(self) -> None:
        tail, self._tail = self._tail, ""
        if tail:
            await self._stream.write([AnswerPart(tail)])

    async def replay(self, text: str) -> None:
        """Show a complete answer from before a crash."""
        calls = read_written_calls(text, self._names)
        await self._stream.replay(text[: text.rfind(OPENING)] if len(calls) == 1 else text if not calls else "")

    async def release(self) -> None:
        """Show what was held back: it is no call."""
        await self._show_tail()
        held, self._held = self._held, []
        if held:
            await self._stream.write(held)
