"""The thinking section of a model's answer, between ``<think>`` and ``</think>``.

A streamed answer is shown with marks in place of the tags, and stored with them; a whole answer is stored
without the section. Source: RAGFlow's ``agent/canvas.py`` and ``rag/llm/chat_model.py``, which miss a tag that
two pieces share.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

__all__ = ["AnswerPart", "ThinkingSplitter", "split_thinking", "strip_thinking"]

OPENING = "<think>"
CLOSING = "</think>"


class AnswerPart(NamedTuple):
    """A piece of text, or with ``mark`` the border of a thinking section (``text`` is then ``""``)."""

    text: str
    mark: Literal["", "start", "end"] = ""

    @property
    def source(self) -> str:
        """The part as it stands in the stored answer, marks written as tags."""
        return {"": self.text, "start": OPENING, "end": CLOSING}[self.mark]


class ThinkingSplitter:
    """Splits an answer that comes in pieces.

    What may be the beginning of a tag is held back until the next piece. A section that is never closed gets
    no ``end``.
    """

    def __init__(self) -> None:
        self._held = ""
        self._is_thinking = False
        self._is_reasoning = False

    def feed(self, text: str, *, is_reasoning: bool = False) -> Iterator[AnswerPart]:
        """Take a piece; give the parts that are certain.

        ``is_reasoning`` marks text of a separate reasoning channel: it is thinking as it stands, without tags.
        """
        if is_reasoning != self._is_reasoning and text:
            yield from self.finish()
            self._is_reasoning = is_reasoning
            if is_reasoning != self._is_thinking:
                self._is_thinking = is_reasoning
                yield AnswerPart("", "start" if is_reasoning else "end")
        if is_reasoning:
            if text:
                yield AnswerPart(text)
            return
        yield from self._split(text)

    def finish(self) -> Iterator[AnswerPart]:
        """Give what was held back, at the end of the answer."""
        held, self._held = self._held, ""
        if held:
            yield AnswerPart(held)

    def _split(self, text: str) -> Iterator[AnswerPart]:
        rest, self._held = self._held + text, ""
        while rest:
            tag = CLOSING if self._is_thinking else OPENING
            before, found, after = rest.partition(tag)
            if not found:
                kept = _tail_of_tag(rest, tag)
                before, self._held = rest[: len(rest) - kept], rest[len(rest) - kept :]
            if before:
                yield AnswerPart(before)
            if found:
                yield AnswerPart("", "end" if self._is_thinking else "start")
                self._is_thinking = not self._is_thinking
            rest = after


def split_thinking(answer: str) -> list[AnswerPart]:
    """Give the parts of a whole answer.

    >>> [part.text for part in split_thinking("<think>hm</think>Yes")]
    ['', 'hm', '', 'Yes']
    """
    splitter = ThinkingSplitter()
    return [*splitter.feed(answer), *splitter.finish()]


def _tail_of_tag(text: str, tag: str) -> int:
    """Give how many characters at the end of ``text`` may begin ``tag``."""
    return next((n for n in range(min(len(tag) - 1, len(text)), 0, -1) if text.endswith(tag[:n])), 0)


def strip_thinking(answer: str) -> str:
    """Leave out the thinking sections of a whole answer.

    A section whose opening tag is missing, as some models answer, begins with the answer; one that is never
    closed is text.

    >>> without_thinking("<think>hm</think>Yes. <think>well</think>No."), without_thinking("hm</think>Yes")
    ('Yes. No.', 'Yes')
    """
    *sections, rest = answer.split(CLOSING)
    return "".join(section.partition(OPENING)[0] for section in sections if OPENING in section) + rest
