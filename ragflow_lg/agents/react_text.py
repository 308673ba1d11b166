"""Reading what a model writes in ReAct's form, as it comes.

Text without any marker is the answer. Of an action and a final answer the earlier counts; behind the one all is action,
behind the other all is answer. What follows an observation that the model has made up counts for nothing up to the
next marker. Cut anywhere, a text reads the same, in a time that grows with its length only: of what came
before, no more than the beginning of a marker is looked at again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from ragflow_lg.agents.react_action import WrittenCall, answer_in, is_no_action, read_actions
from ragflow_lg.agents.react_markers import ENDS_OF_MARKERS, Marker, may_begin_at, next_marker

__all__ = ["ReactReader", "Said"]

_BLOCK_CHARS = 4096
"""Text is taken in blocks: what is behind each marker of a block is copied."""


class Said(NamedTuple):
    """A piece of what is to be shown."""

    kind: Literal["thought", "answer"]
    text: str


class ReactReader:
    """Reads one answer of the model.

    ``is_last``: the model was asked for its final answer only. Text that begins without a marker is the answer then,
    and where there is none the thought has to do.
    """

    def __init__(self, *, is_last: bool = False) -> None:
        self._is_last = is_last
        self._state: Literal["start", "thought", "action", "ignored", "answer"] = "start"
        self._tail = ""
        """What may be the beginning of a marker, behind one character of what is decided."""
        self._from = 0
        """Where the undecided begins in the tail."""
        self._raw: list[str] = []
        """Text before the first marker, or the action."""
        self._is_named = False
        self._blanks: list[str] = []
        """Blanks that count only if something follows them."""
        self._stars = 0
        """How many stars may still come that close those before the marker."""
        self._is_at_head = True
        self._thought: list[str] = []
        self._answer: list[str] | None = None
        self.calls: list[WrittenCall] = []
        """The calls that the model asks for, once the text is finished."""

    @property
    def thought(self) -> str:
        """What was thought so far."""
        return "".join(self._thought)

    @property
    def answer(self) -> str | None:
        """The final answer so far, None while there is none."""
        return None if self._answer is None else "".join(self._answer)

    def feed(self, text: str) -> list[Said]:
        """Take a piece; give what is to be shown."""
        said: list[Said] = []
        for at in range(0, len(text), _BLOCK_CHARS):
            said += self._take(text[at : at + _BLOCK_CHARS])
        return said

    def finish(self) -> list[Said]:
        """End the text; give what is still to be shown."""
        said = [*self.feed("\n"), *self._decide(self._tail[self._from :])]
        if self._state == "start":
            raw = "".join(self._raw)
            said += self._whole_answer(raw) if raw.strip() else ()
        elif self._state == "action":
            self.calls = read_actions("".join(self._raw))
            answer = self.calls[0].answer if self.calls else None
            if answer is not None:
                self.calls = []
                said += self._whole_answer(answer)
        said += self._end_section()
        if self._is_last and not self.answer and self.thought:
            said += self._whole_answer(self.thought)
        return said

    def _take(self, text: str) -> Iterator[Said]:
        rest: str | None = text
        while rest is not None:
            if self._state == "answer":
                yield from self._show(rest)
                return
            if self._state == "action":
                rest = self._take_action(rest)
                continue
            tail, at = self._tail + rest, self._from
            found = next_marker(tail, at) if any(end in rest for end in ENDS_OF_MARKERS) else None
            end = found.start if found else may_begin_at(tail, at)
            if self._state == "start" and self._is_last and tail[at:end].strip():
                self._begin("answer")
                rest = tail[at:]
                continue
            yield from self._decide(tail[at:end])
            if found is None:
                self._tail, self._from = tail[max(end - 1, 0) :], min(end, 1)
                return
            yield from self._enter(found)
            rest = tail[found.end :]
            self._tail, self._from = tail[found.end - 1 : found.end], 1

    def _decide(self, text: str) -> Iterator[Said]:
        """Take text in which no marker stands."""
        if self._state == "start":
            self._raw.append(text)
        elif self._state == "thought":
            yield from self._show(text)

    def _enter(self, marker: Marker) -> Iterator[Said]:
        if self._state == "start":
            before, self._state = "".join(self._raw), "thought"
            yield from self._show(before)
        yield from self._end_section()
        self._begin("ignored" if marker.kind in ("input", "observation") else marker.kind)
        self._stars = marker.stars

    def _begin(self, state: Literal["thought", "action", "ignored", "answer"]) -> None:
        self._state, self._raw, self._is_named = state, [], False
        self._blanks, self._stars, self._is_at_head = [], 0, True
        if state == "answer":
            self._answer = []

    def _whole_answer(self, text: str) -> Iterator[Said]:
        self._begin("answer")
        yield from self._show(text)
        yield from self._end_section()

    def _take_action(self, text: str) -> str | None:
        """Collect an action; where its first line says that there is none, give what follows on it."""
        if not self._raw:
            text = text.lstrip()
        if text:
            self._raw.append(text)
        if self._is_named or "\n" not in text:
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
        self._is_named = True
        return None

    def _show(self, text: str) -> Iterator[Said]:
        """Show text of a thought or the answer, without the blanks around the whole."""
        if self._is_at_head:
            text = self._without_head(text)
            if not text:
                return
            self._is_at_head = False
            if self._state == "thought" and self._thought:
                text = "\n" + text
        kept = text.rstrip(" \t\r\n*" if self._stars else None)
        if kept:
            yield self._said("".join(self._blanks) + kept)
            self._blanks = []
        if len(kept) < len(text):
            self._blanks.append(text[len(kept) :])

    def _without_head(self, text: str) -> str:
        text = text.lstrip()
        while self._stars and text.startswith("*"):
            self._stars -= 1
            text = text[1:].lstrip()
        return text

    def _end_section(self) -> Iterator[Said]:
        """Leave a thought or the answer: blanks behind it do not count, nor stars that close those of the marker."""
        held, self._blanks = "".join(self._blanks).rstrip(), []
        if held and held.strip() != "*" * self._stars:
            yield self._said(held)

    def _said(self, text: str) -> Said:
        if self._state == "answer" and self._answer is not None:
            self._answer.append(text)
            return Said("answer", text)
        self._thought.append(text)
        return Said("thought", text)
