"""Parsing of an answer in ReAct format while it is generated.

Text without any marker is the answer. If there is both an action and a final answer, the first one counts: everything
after the first action belongs to the actions, and everything after ``Final Answer:`` belongs to the answer. Text after
an observation that the model invented is ignored up to the next marker. The result does not depend on how the text is
split into pieces. Parsing takes linear time: only the beginning of an incomplete marker is scanned again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from ragflow_lg.agents.react_action import (
    MARKER_ENDS,
    Marker,
    WrittenCall,
    answer_in,
    is_no_action,
    may_begin_at,
    next_marker,
    read_actions,
)

_BLOCK_CHARS = 4096
"""Text is processed in blocks, because the rest of a block is copied after each of its markers."""


class AnswerPiece(NamedTuple):
    """A piece of text to show."""

    kind: Literal["thought", "answer"]
    text: str


class ReactReader:
    """An incremental parser for one model answer.

    ``is_last`` means that the model was asked only for its final answer. Text that does not begin with a marker is then
    the answer, and if there is no answer, the thought takes its place.
    """

    def __init__(self, *, is_last: bool = False) -> None:
        self._is_last = is_last
        self._state: Literal["start", "thought", "action", "ignored", "answer"] = "start"
        self._tail = ""
        """The possible beginning of a marker, preceded by one character that has been decided."""
        self._from = 0
        """Index of the first undecided character in the tail."""
        self._raw: list[str] = []
        """Text before the first marker, or the text of the actions."""
        self._has_name = False
        self._blanks: list[str] = []
        """Whitespace that is shown only if text follows it."""
        self._stars = 0
        """Number of expected asterisks that close the ones before the marker."""
        self._is_at_head = True
        self._thought: list[str] = []
        self._answer: list[str] | None = None
        self.calls: list[WrittenCall] = []
        """The calls that the model requests; set by `finish`."""

    @property
    def thought(self) -> str:
        """The thought so far."""
        return "".join(self._thought)

    @property
    def answer(self) -> str | None:
        """The final answer so far, or None."""
        return None if self._answer is None else "".join(self._answer)

    def feed(self, text: str) -> list[AnswerPiece]:
        """Parse a piece of text; return the pieces to show."""
        pieces: list[AnswerPiece] = []
        for at in range(0, len(text), _BLOCK_CHARS):
            pieces += self._parse(text[at : at + _BLOCK_CHARS])
        return pieces

    def finish(self) -> list[AnswerPiece]:
        """Finish the text; return the remaining pieces to show."""
        pieces = [*self.feed("\n"), *self._decide(self._tail[self._from :])]
        if self._state == "start":
            raw = "".join(self._raw)
            pieces += self._whole_answer(raw) if raw.strip() else ()
        elif self._state == "action":
            self.calls = read_actions("".join(self._raw))
            answer = self.calls[0].answer if self.calls else None
            if answer is not None:
                self.calls = []
                pieces += self._whole_answer(answer)
        pieces += self._end_section()
        if self._is_last and not self.answer and self.thought:
            pieces += self._whole_answer(self.thought)
        return pieces

    def _parse(self, text: str) -> Iterator[AnswerPiece]:
        rest: str | None = text
        while rest is not None:
            if self._state == "answer":
                yield from self._show(rest)
                return
            if self._state == "action":
                rest = self._parse_action(rest)
                continue
            tail, at = self._tail + rest, self._from
            marker = next_marker(tail, at) if any(end in rest for end in MARKER_ENDS) else None
            end = marker.start if marker else may_begin_at(tail, at)
            if self._state == "start" and self._is_last and tail[at:end].strip():
                self._begin("answer")
                rest = tail[at:]
                continue
            yield from self._decide(tail[at:end])
            if marker is None:
                self._tail, self._from = tail[max(end - 1, 0) :], min(end, 1)
                return
            yield from self._enter(marker)
            rest = tail[marker.end :]
            self._tail, self._from = tail[marker.end - 1 : marker.end], 1

    def _decide(self, text: str) -> Iterator[AnswerPiece]:
        """Handle text without markers."""
        if self._state == "start":
            self._raw.append(text)
        elif self._state == "thought":
            yield from self._show(text)

    def _enter(self, marker: Marker) -> Iterator[AnswerPiece]:
        if self._state == "start":
            before, self._state = "".join(self._raw), "thought"
            yield from self._show(before)
        yield from self._end_section()
        self._begin("ignored" if marker.kind in ("input", "observation") else marker.kind)
        self._stars = marker.stars

    def _begin(self, state: Literal["thought", "action", "ignored", "answer"]) -> None:
        self._state, self._raw, self._has_name = state, [], False
        self._blanks, self._stars, self._is_at_head = [], 0, True
        if state == "answer":
            self._answer = []

    def _whole_answer(self, text: str) -> Iterator[AnswerPiece]:
        self._begin("answer")
        yield from self._show(text)
        yield from self._end_section()

    def _parse_action(self, text: str) -> str | None:
        """Collect an action. If its first line names no action, return the text that still has to be parsed."""
        if not self._raw:
            text = text.lstrip()
        if text:
            self._raw.append(text)
        if self._has_name or "\n" not in text:
            return None
        line, _, rest = "".join(self._raw).partition("\n")
        answer = answer_in(line)
        if answer is not None:
            self._begin("answer")
            return f"{answer}\n{rest}"
        if is_no_action(line):
            self._begin("thought")
            self._tail, self._from = "\n", 1
            return rest
        self._has_name = True
        return None

    def _show(self, text: str) -> Iterator[AnswerPiece]:
        """Show text from a thought or the answer, without the section's leading and trailing whitespace."""
        if self._is_at_head:
            text = self._without_head(text)
            if not text:
                return
            self._is_at_head = False
            if self._state == "thought" and self._thought:
                text = "\n" + text
        visible = text.rstrip(" \t\r\n*" if self._stars else None)
        if visible:
            yield self._add("".join(self._blanks) + visible)
            self._blanks = []
        if len(visible) < len(text):
            self._blanks.append(text[len(visible) :])

    def _without_head(self, text: str) -> str:
        text = text.lstrip()
        while self._stars and text.startswith("*"):
            self._stars -= 1
            text = text[1:].lstrip()
        return text

    def _end_section(self) -> Iterator[AnswerPiece]:
        """End a thought or the answer, dropping trailing whitespace and the asterisks that close the marker's."""
        rest, self._blanks = "".join(self._blanks).rstrip(), []
        if rest and rest.strip() != "*" * self._stars:
            yield self._add(rest)

    def _add(self, text: str) -> AnswerPiece:
        if self._state == "answer" and self._answer is not None:
            self._answer.append(text)
            return AnswerPiece("answer", text)
        self._thought.append(text)
        return AnswerPiece("thought", text)
