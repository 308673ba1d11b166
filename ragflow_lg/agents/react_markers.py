"""The markers of the ReAct format: Thought, Action, Action Input, Observation, Final Answer.

A marker is a label with a colon at the beginning of a line or, for an action or an answer, after the end of a sentence.
Labels are in English or Chinese, in upper or lower case, and may have Markdown around them or a number after them. A
label formatted as a Markdown heading needs no colon. Every part of a marker is bounded, so the search takes linear
time.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

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
    """A marker and its position; it ends after its colon or its line."""

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
