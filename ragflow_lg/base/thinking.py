"""Thinking sections in a model's answer, between ``<think>`` and ``</think>``.

When an answer is streamed, marks replace the tags, but the stored text keeps them. When an answer is not streamed, it
is stored without the section. Source: RAGFlow's ``agent/canvas.py`` and ``rag/llm/chat_model.py``, which miss a tag
that is split between two pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

OPENING = "<think>"
CLOSING = "</think>"


class AnswerPart(NamedTuple):
    """A piece of text or, if ``mark`` is set, the start or end of a thinking section (``text`` is then ``""``)."""

    text: str
    mark: Literal["", "start", "end"] = ""

    @property
    def source(self) -> str:
        """The part as stored in the answer, with tags in place of marks."""
        return {"": self.text, "start": OPENING, "end": CLOSING}[self.mark]


class ThinkingSplitter:
    """Splits an answer that arrives in pieces.

    Text that might be the beginning of a tag is held back until the next piece. A section that is never closed has no
    ``end`` mark.
    """

    def __init__(self) -> None:
        self._pending = ""
        self._is_thinking = False
        self._is_reasoning = False

    def feed(self, text: str, *, is_reasoning: bool = False) -> Iterator[AnswerPart]:
        """Add a piece and yield the parts that are complete.

        ``is_reasoning`` marks text from a separate reasoning channel, all of which is thinking, without tags.
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
        whole, self._pending = self._pending + text, ""
        start = 0
        while start < len(whole):
            tag = CLOSING if self._is_thinking else OPENING
            found = whole.find(tag, start)
            end = found if found >= 0 else len(whole)
            if found < 0 and (begun := whole.rfind("<", start)) >= 0 and tag.startswith(whole[begun:]):
                end = begun  # the rest of the tag may follow
            if end > start:
                yield AnswerPart(whole[start:end])
            if found < 0:
                self._pending = whole[end:]
                return
            yield AnswerPart("", "end" if self._is_thinking else "start")
            self._is_thinking = not self._is_thinking
            start = found + len(tag)

    def finish(self) -> Iterator[AnswerPart]:
        """Yield the text that was held back, at the end of the answer."""
        pending, self._pending = self._pending, ""
        if pending:
            yield AnswerPart(pending)


def split_thinking(answer: str) -> list[AnswerPart]:
    """Return the parts of a complete answer.

    >>> [part.text for part in split_thinking("<think>hm</think>Yes")]
    ['', 'hm', '', 'Yes']
    """
    splitter = ThinkingSplitter()
    return [*splitter.feed(answer), *splitter.finish()]


def strip_thinking(answer: str) -> str:
    """Return a complete answer without its thinking sections.

    A section without an opening tag, which some models omit, starts at the beginning of the answer. A section that is
    never closed is treated as text.

    >>> strip_thinking("<think>hm</think>Yes. <think>well</think>No."), strip_thinking("hm</think>Yes")
    ('Yes. No.', 'Yes')
    """
    *sections, rest = answer.split(CLOSING)
    return "".join(section.partition(OPENING)[0] for section in sections if OPENING in section) + rest


def split_thoughts(answer: str) -> tuple[str, str]:
    """Return the text of an answer's thinking sections, including an unclosed one, and the rest.

    >>> split_thoughts("<think>hm</think>Yes<think>but")
    ('hmbut', 'Yes')
    """
    parts: dict[bool, list[str]] = {True: [], False: []}
    is_thinking = False
    for piece, mark in split_thinking(answer):
        is_thinking = mark == "start" if mark else is_thinking
        parts[is_thinking].append(piece)
    return "".join(parts[True]), "".join(parts[False])


def strip_tags(text: str) -> str:
    """Remove the tags of thinking sections; their text stays in the stored answer, as in RAGFlow."""
    return "".join(part.text for part in split_thinking(text))
