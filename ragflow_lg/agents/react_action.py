"""Parsing of markers and actions in ReAct format: tool names and inputs, in the variants that models write.

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
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from ragflow_lg.base.errors import ForeignJsonError
from ragflow_lg.base.json_scanner import parse_foreign_json

MarkerKind: TypeAlias = Literal["thought", "action", "input", "observation", "answer"]

MARKER_ENDS = ":：\n"
"""Every marker ends with one of these characters."""

_LABELS: dict[str, MarkerKind] = {
    "thought": "thought",
    "思考": "thought",
    "想法": "thought",
    "action": "action",
    "行动": "action",
    "动作": "action",
    "操作": "action",
    "actioninput": "input",
    "行动输入": "input",
    "动作输入": "input",
    "操作输入": "input",
    "observation": "observation",
    "观察": "observation",
    "观察结果": "observation",
    "finalanswer": "answer",
    "最终答案": "answer",
    "最终回答": "answer",
    "最终答复": "answer",
}
"""Marker kinds by label, without the spaces and underscores between words."""

_BEGINNINGS = frozenset(label[:size] for label in _LABELS for size in range(len(label) + 1))
_MID_LINE: frozenset[MarkerKind] = frozenset({"action", "input", "answer"})
_MAX_CHARS = 80
"""Length of the longest marker."""
_ENDS = ".!?:;。！？：；"
_BEFORE = " \t*#>_`~-.)、0123456789"
_AFTER = "\t\r*#`~0123456789"
_LABEL_PATTERN = "|".join(
    re.sub("^(action|final)(.)", r"\1[ _]{0,2}\2", label) for label in sorted(_LABELS, key=len, reverse=True)
)
_MID_LINE_PATTERN = "|".join(
    pattern for pattern in _LABEL_PATTERN.split("|") if _LABELS[re.sub(r"\[ _\]\{0,2\}", "", pattern)] in _MID_LINE
)
_FIRST = "(?=[" + "".join(sorted({label[0] for label in _LABELS})) + "])"
"""First characters of labels; this check rules out most positions before any label is tried."""
_LINE = r"^[ \t]{0,16}(?:[>*-][ \t]{1,2}){0,2}(?:\d{1,3}[.)、][ \t]?)?"
_COLON = r"[ \t]{0,4}\d{0,3}[ \t]{0,4}[*_`~]{0,4}[ \t]{0,4}[:：]"
_MARKER = re.compile(
    rf"{_LINE}(?P<lead>[*#>_`~-]{{0,6}})[ \t]{{0,4}}{_FIRST}(?P<label>{_LABEL_PATTERN})(?P<after_label>{_COLON})"
    rf"|(?>{_LINE})(?P<heading>(?=[>_`~-]{{0,5}}[*#])[*#>_`~-]{{1,6}})[ \t]{{0,4}}{_FIRST}(?P<titled>{_LABEL_PATTERN})"
    r"(?P<closed>[ \t]{0,4}\d{0,3}[*#_`~]{0,6}[ \t]{0,4}\r?\n)"
    rf"|(?<=[{_ENDS}])[ \t]{{0,4}}(?P<marks>[*#>_`~-]{{0,6}})[ \t]{{0,4}}{_FIRST}(?P<inner>{_MID_LINE_PATTERN})"
    rf"(?P<after>{_COLON})",
    re.ASCII | re.IGNORECASE | re.MULTILINE,
)


class Marker(NamedTuple):
    """A marker and its position; it ends after its colon or its line.

    A marker is a label with a colon at the beginning of a line or, for an action or an answer, after the end of a
    sentence. Labels are in English or Chinese, in upper or lower case, and may have Markdown around them or a number
    after them. A label formatted as a Markdown heading needs no colon. Every part of a marker is bounded, so the search
    takes linear time.
    """

    kind: MarkerKind
    start: int
    end: int
    stars: int
    """Number of asterisks before the label that are not closed within the marker."""


def next_marker(text: str, start: int, end: int | None = None) -> Marker | None:
    """Return the first marker that begins between ``start`` and ``end``, or None."""
    match = _MARKER.search(text, start)
    if match is None or (end is not None and match.start() >= end):
        return None
    lead, label, rest = (part for part in match.groups() if part is not None)
    kind = _LABELS[re.sub("[ _]", "", label).lower()]
    return Marker(kind, match.start(), match.end(), max(0, lead.count("*") - rest.count("*")))


def may_begin_at(text: str, start: int) -> int:
    """Return the index at which an incomplete marker may begin at the end of the text, or the length of the text.

    ``start`` is the first undecided index; index 0 counts as the beginning of a line.
    """
    for index in range(max(start, len(text) - _MAX_CHARS), len(text)):
        if (index == 0 or text[index - 1] in _ENDS or text[index - 1] == "\n") and _may_begin(text[index:]):
            return index
    return len(text)


def _may_begin(text: str) -> bool:
    if "\n" in text:
        return False
    core = text.lstrip(_BEFORE).replace(" ", "").replace("_", "").lower()
    return core in _BEGINNINGS or core.rstrip(_AFTER) in _LABELS


MAX_ACTIONS = 64
"""Maximum number of actions per answer; any further actions are ignored."""

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
_BARE_CALL = re.compile(r"\s*([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})\s{0,4}([(\[])")
_NAMES = ("name", "action", "tool", "tool_name", "function")
_ARGUMENTS = ("arguments", "action_input", "input", "parameters", "args", "tool_input")


class WrittenCall(NamedTuple):
    """A call as the model wrote it: ``input`` is JSON or plain text."""

    name: str
    input: str

    @property
    def answer(self) -> str | None:
        """The final answer if it is written as an action, else None."""
        if re.sub("[ _]", "", self.name).lower() not in _FINAL:
            return None
        with suppress(ForeignJsonError):
            value = parse_foreign_json(self.input)
            values: list[Any] = list(cast("dict[str, Any]", value).values()) if isinstance(value, dict) else [value]
            if len(values) == 1 and isinstance(values[0], str):
                return values[0]
        return self.input


def is_no_action(line: str) -> bool:
    """Return whether the text after ``Action:`` means that there is no action."""
    return line.strip(_QUOTES + "-()[]").casefold() in _NONE


def answer_in(line: str) -> str | None:
    """Return the text after a ``Final Answer:`` at the beginning of the line after ``Action:``, else None."""
    marker = next_marker(line, 0)
    if marker is None or marker.kind != "answer" or marker.start != 0:
        return None
    return line[marker.end :]


def read_actions(text: str) -> list[WrittenCall]:
    """Parse the text after the first ``Action:``, up to the end of the actions."""
    return [call for call in _calls(text) if not is_no_action(call.name)][:MAX_ACTIONS]


def _calls(text: str) -> Iterator[WrittenCall]:
    at = count = 0
    while count < MAX_ACTIONS:
        head = _skip(text, at)
        if (
            text.startswith(("{", "["), head)
            and (end := _json_end(text, head)) > 0
            and (json_calls := _parse_json_calls(text[head:end]))
        ):
            yield from json_calls
        else:
            end, call = _read_call(text, at)
            yield call
            if end < 0:
                return  # an unclosed input: everything after it is part of it
        count += 1
        following = next_marker(text, end)
        if following is None or following.kind != "action":
            return
        at = following.end


def _read_call(text: str, at: int) -> tuple[int, WrittenCall]:
    """Parse a call; return the index of its end, or -1 if its input is never closed, and the call."""
    following = _after_action(text, at)
    match = _INPUT.search(text, at, following)
    if match is None:
        return following, _parse_bare_call(text[at:following])
    name = text[at : match.start()].strip(_QUOTES)
    start = _skip(text, match.end())
    if text.startswith(("{", "["), start):
        end = _json_end(text, start)
        return end, WrittenCall(name, text[start:end] if end > 0 else text[start:].rstrip("` \t\r\n"))
    if following < start:
        following = _after_action(text, start)
    return following, WrittenCall(name, _strip_quotes(text[start:following]))


def _after_action(text: str, at: int) -> int:
    """Return the index of the next marker that is not an input marker."""
    start = at
    while marker := next_marker(text, start):
        if marker.kind != "input":
            return marker.start
        start = marker.end
    return len(text)


def _skip(text: str, at: int) -> int:
    """Skip spaces and the opening of a code fence."""
    match = _BLANKS.match(text, at)
    at = match.end() if match else at
    fence = _FENCE.match(text, at)
    match = _BLANKS.match(text, fence.end()) if fence else None
    return match.end() if match else at


def _json_end(text: str, start: int) -> int:
    """Return the index of the end of the JSON that begins at ``start``, or -1 if it is not closed."""
    depth, skip, is_string = 0, start, False
    for match in _STRUCTURE.finditer(text, start):
        mark = match[0]
        if match.start() < skip:
            continue
        if mark == "\\":
            skip = match.start() + 2
        elif mark == '"':
            is_string = not is_string
        elif not is_string:
            depth += 1 if mark in "{[" else -1
            if depth == 0:
                return match.end()
    return -1


def _parse_json_calls(text: str) -> list[WrittenCall]:
    """Parse a JSON action: an object with a name and arguments, or a list of such objects."""
    value: Any = None
    with suppress(ForeignJsonError):
        value = parse_foreign_json(text)
    entries = cast("list[Any]", value if isinstance(value, list) else [value])[:MAX_ACTIONS]
    calls: list[WrittenCall] = []
    for entry in entries:
        if not isinstance(entry, Mapping):
            return []
        call = cast("Mapping[str, Any]", entry)
        name = next((call[key] for key in _NAMES if isinstance(call.get(key), str)), None)
        if name is None:
            return []
        arguments: Any = next((call[key] for key in _ARGUMENTS if key in call), "{}")
        calls.append(
            WrittenCall(name, arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False))
        )
    return calls


def _parse_bare_call(text: str) -> WrittenCall:
    """Parse an action without a separate input: a name, possibly followed by arguments in brackets."""
    match = _BARE_CALL.match(text)
    if match is not None:
        closing = text.rfind(")" if match[2] == "(" else "]")
        if closing > match.end() - 1:
            return WrittenCall(match[1], _strip_quotes(text[match.end() : closing]))
    line = text.strip().partition("\n")[0]
    return WrittenCall(line.strip(_QUOTES), "")


def _strip_quotes(text: str) -> str:
    """Return an input that is not a JSON object, without its code fence and quotes."""
    text = text.strip()
    if fence := _FENCE.match(text):
        text = text[fence.end() :].strip()
    text = text.strip("`").strip()
    with suppress(ForeignJsonError):
        value = parse_foreign_json(text) if text.startswith('"') else None
        if isinstance(value, str):
            return value
    return text
