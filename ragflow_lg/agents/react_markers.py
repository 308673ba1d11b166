"""The markers of ReAct's form: Thought, Action, Action Input, Observation, Final Answer.

A marker is a label with a colon at the beginning of a line, or, for an action and an answer, behind the end of a
sentence; in any case, in English or Chinese, with Markdown round it or a number behind it. A label that Markdown makes
a heading needs no colon. Every part of a marker is bounded, so that looking for them takes linear time.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

__all__ = ["ENDS_OF_MARKERS", "Marked", "Marker", "may_begin_at", "next_marker"]

Marked: TypeAlias = Literal["thought", "action", "input", "observation", "answer"]
Marker: TypeAlias = re.Match[str]

ENDS_OF_MARKERS = ":：\n"
"""No marker is whole before one of these."""

_LABELS: dict[str, Marked] = {
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
"""Labels without the blanks and underscores between their words."""

_MID_LINE: frozenset[Marked] = frozenset({"action", "input", "answer"})
_MAX_CHARS = 80
"""No marker is longer."""
_ENDS = ".!?:;。！？：；"
_BEFORE = " \t*#>_`~-.)、0123456789"
_BEHIND = "\t\r*#`~0123456789"
_WRITTEN = "|".join(
    re.sub("^(action|final)(.)", r"\1[ _]{0,2}\2", label) for label in sorted(_LABELS, key=len, reverse=True)
)
_MARKER = re.compile(
    rf"(?:(?P<line>^[ \t]{{0,16}}(?:[>*-][ \t]{{1,2}}){{0,2}}(?:\d{{1,3}}[.)、][ \t]?)?)|(?<=[{_ENDS}])[ \t]{{0,4}})"
    rf"(?P<lead>[*#>_`~-]{{0,6}})[ \t]{{0,4}}(?P<label>{_WRITTEN})"
    r"(?P<behind>[ \t]{0,4}\d{0,3}[ \t]{0,4}[*_`~]{0,4}[ \t]{0,4}[:：]"
    r"|[ \t]{0,4}\d{0,3}[*#_`~]{0,6}[ \t]{0,4}\r?(?P<heading>\n))",
    re.ASCII | re.IGNORECASE | re.MULTILINE,
)


def next_marker(text: str, start: int, end: int | None = None) -> tuple[Marked, Marker] | None:
    """Find the first marker from ``start`` on that begins before ``end``. It ends behind its colon, or its line."""
    while found := _MARKER.search(text, start):
        if end is not None and found.start() >= end:
            return None
        kind = _LABELS[re.sub("[ _]", "", found["label"]).lower()]
        is_heading = found["heading"] is not None
        if not (is_heading and not re.search("[*#]", found["lead"])) and (
            found["line"] is not None or (kind in _MID_LINE and not is_heading)
        ):
            return kind, found
        start = found.start() + 1
    return None


def may_begin_at(text: str, start: int) -> int:
    """Give from where on the end of a text may be the beginning of a marker; its length if nothing of it may be.

    Text before ``start`` is decided; a beginning of the whole text is the beginning of a line.
    """
    for place in range(max(start, len(text) - _MAX_CHARS), len(text)):
        if (place == 0 or text[place - 1] in _ENDS or text[place - 1] == "\n") and _may_begin(text[place:]):
            return place
    return len(text)


def _may_begin(text: str) -> bool:
    if "\n" in text:
        return False
    core = re.sub("[ _]", "", text.lstrip(_BEFORE)).lower()
    return any(
        label.startswith(core) or (core.startswith(label) and not core[len(label) :].strip(_BEHIND))
        for label in _LABELS
    )
