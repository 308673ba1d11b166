"""The text of a turn, collected from its wire events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ragflow_lg.base.thinking import split_thinking
from ragflow_lg.wire.wire_events import Message, MessageEnd, MessageReset, WireEvent


def message_frames(text: str) -> Iterator[Message]:
    """Yield the frames of a text, with thinking sections marked."""
    for piece, mark in split_thinking(text):
        yield Message(piece, start_to_think=mark == "start", end_to_think=mark == "end")


class AnswerText:
    """Collects the text of all Messages. A `MessageReset` replaces the text of the Message that is being sent.

    ``thinking`` determines what becomes of thinking sections: they are ``omitted``, ``tagged`` with ``<think>``, or
    kept as plain ``text``.
    """

    def __init__(self, thinking: Literal["omitted", "tagged", "text"] = "omitted") -> None:
        self._thinking = thinking
        self._pieces: list[str] = []
        self._message_start = 0
        self._is_thinking = False

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._pieces)

    def feed(self, event: WireEvent) -> str:
        """Process the next event; return the text that it adds."""
        if isinstance(event, Message):
            self._pieces.append(self._piece(event))
            return self._pieces[-1]
        if isinstance(event, MessageEnd):
            self._message_start = len(self._pieces)
        elif isinstance(event, MessageReset):
            del self._pieces[self._message_start :]
            self._is_thinking = False
            self._pieces += [self._piece(frame) for frame in message_frames(event.content)]
        return ""

    def _piece(self, frame: Message) -> str:
        if self._thinking == "tagged":
            return ("<think>" if frame.start_to_think else "</think>" if frame.end_to_think else "") + frame.content
        self._is_thinking = (self._is_thinking or frame.start_to_think) and not frame.end_to_think
        return "" if self._is_thinking and self._thinking == "omitted" else frame.content
