"""The answer of a turn, collected from its wire events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, cast

from ragflow_lg.base.thinking import split_thinking
from ragflow_lg.base.values import join_surrogates
from ragflow_lg.runs.wire.wire_events import Message, MessageEnd, MessageReset, UserInputs, WireEvent


def message_frames(text: str) -> Iterator[Message]:
    """Yield the frames of a text, with thinking sections marked."""
    for piece, mark, is_aside in split_thinking(text):
        yield Message(piece, start_to_think=mark == "start", end_to_think=mark == "end", is_aside=is_aside)


class AnswerText:
    """Collects the text and the sources of all Messages, and the form that the turn waits at.

    A `MessageReset` replaces the text of the Message that is being sent.

    ``thinking`` determines what becomes of thinking sections: they are ``omitted``, ``tagged`` with ``<think>``, or
    kept as plain ``text``, without those that are no part of the stored text.
    """

    def __init__(self, thinking: Literal["omitted", "tagged", "text"] = "omitted") -> None:
        self._thinking = thinking
        self._pieces: list[str] = []
        self._message_start = 0
        self._is_thinking = False
        self.reference: dict[str, dict[str, Any]] = {}
        """The sources of all Messages, such as ``chunks`` by number."""
        self.form: UserInputs | None = None
        """The last form."""

    @property
    def tips(self) -> str:
        """The text that the form shows, or ``""``."""
        return self.form.tips if self.form is not None else ""

    @property
    def text(self) -> str:
        """The text so far. Each piece may contain half a character; the text does not."""
        return join_surrogates("".join(self._pieces))

    def feed(self, event: WireEvent) -> str:
        """Process the next event; return the text that it adds."""
        if isinstance(event, Message):
            text = event.content
            if self._thinking == "tagged":
                text = ("<think>" if event.start_to_think else "</think>" if event.end_to_think else "") + text
            else:
                self._is_thinking = (self._is_thinking or event.start_to_think) and not event.end_to_think
                text = "" if event.is_aside or (self._is_thinking and self._thinking == "omitted") else text
            self._pieces.append(text)
            return text
        if isinstance(event, MessageEnd):
            self._message_start = len(self._pieces)
            self._add_sources(event.extras.get("reference"))
        elif isinstance(event, UserInputs):
            self.form = event
        elif isinstance(event, MessageReset):
            del self._pieces[self._message_start :]
            self._is_thinking = False
            for frame in message_frames(event.content):
                self.feed(frame)
        return ""

    def _add_sources(self, reference: Any) -> None:
        if isinstance(reference, dict):
            for name, part in cast("dict[str, Any]", reference).items():
                if isinstance(part, dict):
                    self.reference.setdefault(name, {}).update(cast("dict[str, Any]", part))
