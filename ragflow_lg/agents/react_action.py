"""Reading the actions of ReAct's form: names of tools and their inputs, however a model writes them.

::

    Action: search                     search               `search`.
    Action Input: {"query": "Laos"}    Action Input: Laos   ```json … ```

    Action: {"name": "search", "arguments": {"query": "Laos"}}
    Action: search[Laos]               search("Laos")       search({"query": "Laos"})
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, cast

from ragflow_lg.agents.react_markers import next_marker

__all__ = ["MAX_ACTIONS", "WrittenCall", "answer_in", "is_no_action", "read_actions"]

MAX_ACTIONS = 64
"""How many actions of one answer are read."""

_NONE = frozenset(
    ["", "none", "n/a", "na", "null", "nil", "no", "no action", "no tool", "nothing", "无", "没有", "不需要", "无需"]
)
_FINAL = frozenset(["finalanswer", "finish", "最终答案", "最终回答", "最终答复"])
_QUOTES = " \t\r\n`\"'*_.,;。，；"
_INPUT = re.compile(
    r"(?:action|行动|动作|操作)[ _]{0,2}(?:input|输入)[ \t]{0,4}\d{0,3}[*_`~ \t]{0,8}[:：][ \t]{0,4}[*_`~]{0,4}",
    re.ASCII | re.IGNORECASE,
)
_FENCE = re.compile(r"`{3,}[A-Za-z0-9_]{0,16}[ \t]{0,16}\r?\n?")
_BLANKS = re.compile(r"\s*")
_STRUCTURE = re.compile(r'["\\{}\[\]]')
_CALLED = re.compile(r"\s*([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})\s{0,4}([(\[])")
_NAMES = ("name", "action", "tool", "tool_name", "function")
_ARGUMENTS = ("arguments", "action_input", "input", "parameters", "args", "tool_input")


class WrittenCall(NamedTuple):
    """A call as it was written: ``input`` is JSON, or what stands for it."""

    name: str
    input: str

    @property
    def answer(self) -> str | None:
        """The final answer, where that is written as an action; else None."""
        if re.sub("[ _]", "", self.name).lower() not in _FINAL:
            return None
        with suppress(ValueError, RecursionError):
            value = json.loads(self.input)
            values: list[Any] = list(cast("dict[str, Any]", value).values()) if isinstance(value, dict) else [value]
            if len(values) == 1 and isinstance(values[0], str):
                return values[0]
        return self.input


def is_no_action(line: str) -> bool:
    """Whether the line behind ``Action:`` says that there is none."""
    return line.strip(_QUOTES + "-()[]").casefold() in _NONE


def answer_in(line: str) -> str | None:
    """Give what stands behind ``Final Answer:`` in the line behind ``Action:``, None if nothing does."""
    found = next_marker(line, 0)
    if found is None or found.kind != "answer" or found.start != 0:
        return None
    return line[found.end :]


def read_actions(text: str) -> list[WrittenCall]:
    """Read what stands behind the first ``Action:`` of a text, up to what follows on the actions."""
    return [call for call in _calls(text) if not is_no_action(call.name)][:MAX_ACTIONS]


def _calls(text: str) -> Iterator[WrittenCall]:
    at = count = 0
    while count < MAX_ACTIONS:
        head = _skip(text, at)
        if (
            text.startswith(("{", "["), head)
            and (end := _closing(text, head)) > 0
            and (whole := _whole(text[head:end]))
        ):
            yield from whole
        else:
            end, call = _read_call(text, at)
            yield call
            if end < 0:
                return  # an input that is never closed: what follows is part of it
        count += 1
        following = next_marker(text, end)
        if following is None or following.kind != "action":
            return
        at = following.end


def _read_call(text: str, at: int) -> tuple[int, WrittenCall]:
    """Read a call; give where it ends, -1 if its input is never closed."""
    following = _after_action(text, at)
    found = _INPUT.search(text, at, following)
    if found is None:
        return following, _called(text[at:following])
    name = text[at : found.start()].strip(_QUOTES)
    start = _skip(text, found.end())
    if text.startswith(("{", "["), start):
        end = _closing(text, start)
        return end, WrittenCall(name, text[start:end] if end > 0 else text[start:].rstrip("` \t\r\n"))
    if following < start:
        following = _after_action(text, start)
    return following, WrittenCall(name, _plain(text[start:following]))


def _after_action(text: str, at: int) -> int:
    """Give where the next marker stands that is not of an input."""
    start = at
    while found := next_marker(text, start):
        if found.kind != "input":
            return found.start
        start = found.end
    return len(text)


def _skip(text: str, at: int) -> int:
    """Go over blanks and the opening of a code fence."""
    found = _BLANKS.match(text, at)
    at = found.end() if found else at
    fence = _FENCE.match(text, at)
    found = _BLANKS.match(text, fence.end()) if fence else None
    return found.end() if found else at


def _closing(text: str, start: int) -> int:
    """Give where the JSON that begins at ``start`` ends, -1 if it does not."""
    depth, skip, is_text = 0, start, False
    for found in _STRUCTURE.finditer(text, start):
        mark = found[0]
        if found.start() < skip:
            continue
        if mark == "\\":
            skip = found.start() + 2
        elif mark == '"':
            is_text = not is_text
        elif not is_text:
            depth += 1 if mark in "{[" else -1
            if depth == 0:
                return found.end()
    return -1


def _whole(text: str) -> list[WrittenCall]:
    """Read an action that is JSON: name and arguments in one, or a list of such."""
    value: Any = None
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
    entries = cast("list[Any]", value if isinstance(value, list) else [value])[:MAX_ACTIONS]
    calls: list[WrittenCall] = []
    for entry in entries:
        if not isinstance(entry, Mapping):
            return []
        held = cast("Mapping[str, Any]", entry)
        name = next((held[key] for key in _NAMES if isinstance(held.get(key), str)), None)
        if name is None:
            return []
        given: Any = next((held[key] for key in _ARGUMENTS if key in held), "{}")
        calls.append(WrittenCall(name, given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)))
    return calls


def _called(text: str) -> WrittenCall:
    """Read an action without an input of its own: a name alone, or one with brackets behind it."""
    found = _CALLED.match(text)
    if found is not None:
        closing = text.rfind(")" if found[2] == "(" else "]")
        if closing > found.end() - 1:
            return WrittenCall(found[1], _plain(text[found.end() : closing]))
    line = text.strip().partition("\n")[0]
    return WrittenCall(line.strip(_QUOTES), "")


def _plain(text: str) -> str:
    """Give an input that is no JSON object: without fence and quotes."""
    text = text.strip()
    if fence := _FENCE.match(text):
        text = text[fence.end() :].strip()
    text = text.strip("`").strip()
    with suppress(ValueError, RecursionError):
        value = json.loads(text) if text.startswith('"') else None
        if isinstance(value, str):
            return value
    return text
