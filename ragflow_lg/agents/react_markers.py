"""The markers of ReAct's form: Thought, Action, Action Input, Observation, Final Answer.

A marker is a label with a colon at the beginning of a line, or, for an action and an answer, behind the end of a
sentence; in any case, in English or Chinese, with Markdown round it or a number behind it. A label that Markdown makes
a heading needs no colon. Every part of a marker is bounded, so that looking for them takes linear time.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

__all__ = ["ENDS_OF_MARKERS", "Marked", "Marker", "may_begin_at", "next_marker"]

Marked: TypeAlias = Literal["thought", "action", "input", "observation", "answer"]

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

_BEGINNINGS = frozenset(label[:size] for label in _LABELS for size in range(len(label) + 1))
_MID_LINE: frozenset[Marked] = frozenset({"action", "input", "answer"})
_MAX_CHARS = 80
"""No marker is longer."""
_ENDS = ".!?:;。！？：；"
_BEFORE = " \t*#>_`~-.)、0123456789"
_BEHIND = "\t\r*#`~0123456789"
_WRITTEN = "|".join(
    re.sub("^(action|final)(.)", r"\1[ _]{0,2}\2", label) for label in sorted(_LABELS, key=len, reverse=True)
)
_WRITTEN_MID_LINE = "|".join(
    written for written in _WRITTEN.split("|") if _LABELS[re.sub(r"\[ _\]\{0,2\}", "", written)] in _MID_LINE
)
_FIRST = "(?=[" + "".join(sorted({label[0] for label in _LABELS})) + "])"
"""What a label begins with: most places fail here, before all labels are tried."""
_LINE = r"^[ \t]{0,16}(?:[>*-][ \t]{1,2}){0,2}(?:\d{1,3}[.)、][ \t]?)?"
_COLON = r"[ \t]{0,4}\d{0,3}[ \t]{0,4}[*_`~]{0,4}[ \t]{0,4}[:：]"
_MARKER = re.compile(
    rf"{_LINE}(?P<lead>[*#>_`~-]{{0,6}})[ \t]{{0,4}}{_FIRST}(?P<label>{_WRITTEN})(?P<behind>{_COLON})"
    rf"|(?>{_LINE})(?P<heading>(?=[>_`~-]{{0,5}}[*#])[*#>_`~-]{{1,6}})[ \t]{{0,4}}{_FIRST}(?P<titled>{_WRITTEN})"
    r"(?P<closed>[ \t]{0,4}\d{0,3}[*#_`~]{0,6}[ \t]{0,4}\r?\n)"
    rf"|(?<=[{_ENDS}])[ \t]{{0,4}}(?P<marks>[*#>_`~-]{{0,6}})[ \t]{{0,4}}{_FIRST}(?P<inner>{_WRITTEN_MID_LINE})"
    rf"(?P<after>{_COLON})",
    re.ASCII | re.IGNORECASE | re.MULTILINE,
)


class Marker(NamedTuple):
    """A marker, and where it stands: it ends behind its colon, or its line."""

    kind: Marked
    start: int
    end: int
    stars: int
    """How many stars before its label are not closed within it."""


def next_marker(text: str, start: int, end: int | None = None) -> Marker | None:
    """Find the first marker from ``start`` on that begins before ``end``."""
    found = _MARKER.search(text, start)
    if found is None or (end is not None and found.start() >= end):
        return None
    lead, label, behind = (part for part in found.groups() if part is not None)
    kind = _LABELS[re.sub("[ _]", "", label).lower()]
    return Marker(kind, found.start(), found.end(), max(0, lead.count("*") - behind.count("*")))


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
    core = text.lstrip(_BEFORE).replace(" ", "").replace("_", "").lower()
    return core in _BEGINNINGS or core.rstrip(_BEHIND) in _LABELS
