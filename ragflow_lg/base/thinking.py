"""Thinking sections in a model's answer, between ``<think>`` and ``</think>``.

When an answer is streamed, marks replace the tags, but the stored text keeps them. When an answer is not streamed, it
is stored without the section. Source: RAGFlow's ``agent/canvas.py`` and ``rag/llm/chat_model.py``, which miss a tag
that is split between two pieces.

Some models send only the closing tag, because the prompt already contains the opening one. What stands before such a
tag is thinking, and is not stored at all. A tag in quotes or in a fenced block of code is text: the answer is about it.
Some models have marks of their own, which count if they open an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

OPENING = "<think>"
CLOSING = "</think>"

_OTHER_MARKS = {
    "<thinking>": "</thinking>",
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|channel|>analysis<|message|>": "<|channel|>final<|message|>",
}
"""How other models open and close the thinking at the beginning of an answer."""
_TAG = re.compile(f"{OPENING}|{CLOSING}")
_ANY_MARK = re.compile("|".join(map(re.escape, (OPENING, CLOSING, *_OTHER_MARKS))))
_FENCE = re.compile(r" {0,3}(```|~~~)")
_FENCES = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_FENCE_CHARS = 6
_QUOTES = frozenset("`\"'“‘«")
_CODE_QUOTES = frozenset("`")
_CLOSING_QUOTES = {"“": "”", "‘": "’", "«": "»"}
_PAIRS = (("“", "”"), ("«", "»"))
"""Quotes that cannot be apostrophes."""
_MAX_UNOPENED = 8
"""How often a closing tag may withdraw what was shown, since all of it is sent again; further ones are dropped."""


Mark: TypeAlias = Literal["", "start", "end", "unopened"]
"""What a part of an answer is: text, the start or end of a thinking section, or the end of one that was not opened."""


class AnswerPart(NamedTuple):
    """A piece of text or, if ``mark`` is set, the start or end of a thinking section (``text`` is then ``""``).

    The mark ``unopened`` is a closing tag without an opening one: the text since the last mark was thinking.
    """

    text: str
    mark: Mark = ""
    is_aside: bool = False
    """Whether the part is shown, but is no part of the stored answer."""

    @property
    def source(self) -> str:
        """The part as stored in the answer, with tags in place of marks."""
        if self.is_aside:
            return ""
        return {"": self.text, "start": OPENING, "end": CLOSING, "unopened": CLOSING}[self.mark]


class _MarkReader:
    """Replaces the other marks of a thinking section that opens an answer by the usual tags."""

    def __init__(self) -> None:
        self._held = ""
        """Text that may be the beginning of a mark."""
        self._has_begun = False
        self._closing = ""

    def feed(self, text: str) -> str:
        """Return the text so far, apart from what must be held back."""
        text, self._held = self._held + text, ""
        if not self._has_begun:
            text = self._open(text)
        if not self._closing:
            return text
        thought, closing, rest = text.partition(self._closing)
        if closing:
            self._closing = ""
            return f"{thought}{CLOSING}{rest}"
        sizes = range(min(len(self._closing) - 1, len(text)), 0, -1)
        size = next((size for size in sizes if text.endswith(self._closing[:size])), 0)
        self._held = text[len(text) - size :]
        return text[: len(text) - size]

    def _open(self, text: str) -> str:
        answer = text.lstrip()
        space = text[: len(text) - len(answer)]
        if not answer or any(opening.startswith(answer) and opening != answer for opening in _OTHER_MARKS):
            self._held = answer
            return space
        self._has_begun = True
        opening = next((opening for opening in _OTHER_MARKS if answer.startswith(opening)), "")
        self._closing = _OTHER_MARKS.get(opening, "")
        return f"{space}{OPENING}{answer[len(opening) :]}" if opening else text

    def finish(self) -> str:
        """Return the text that was held back."""
        held, self._held = self._held, ""
        self._has_begun = self._has_begun or bool(held)
        return held


class ThinkingSplitter:
    """Splits an answer that arrives in pieces.

    Text that might be the beginning of a tag is held back until the next piece. A section that is never closed has no
    ``end`` mark.
    """

    def __init__(self) -> None:
        self._pending = ""
        self._before = ""
        """The character before the pending text."""
        self._is_thinking = False
        self._is_reasoning = False
        self._marks = _MarkReader()
        self._is_fenced = False
        self._line = ""
        """The beginning of the current line, outside thinking sections."""
        self._unopened = 0

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
        yield from self._split(self._pending + self._marks.feed(text), is_last=False)

    def finish(self) -> Iterator[AnswerPart]:
        """Yield the text that was held back, at the end of the answer."""
        yield from self._split(self._pending + self._marks.finish(), is_last=True)

    def _split(self, whole: str, *, is_last: bool) -> Iterator[AnswerPart]:
        self._pending = ""
        start = at = 0
        while (tag := _TAG.search(whole, at)) is not None:
            at = tag.end()
            before = whole[tag.start() - 1] if tag.start() else self._before
            if before in self._quotes and at == len(whole) and not is_last:
                break  # the closing quote may follow
            self._read_fences(whole[start : tag.start()])
            if start < tag.start():
                yield AnswerPart(whole[start : tag.start()])
            start = tag.start()
            if not self._is_text(tag[0], before, whole[at : at + 1]):
                start = at
                yield from self._on_tag(tag[0])
        end = len(whole) if is_last else tag.start() if tag else self._find_begun_tag(whole, start)
        if end > start:
            self._read_fences(whole[start:end])
            yield AnswerPart(whole[start:end])
        self._before = whole[end - 1 : end] or self._before
        self._pending = whole[end:]

    def _on_tag(self, tag: str) -> Iterator[AnswerPart]:
        if tag == CLOSING and not self._is_thinking:
            self._unopened += 1
            if self._unopened <= _MAX_UNOPENED:
                yield AnswerPart("", "unopened")
        else:
            self._is_thinking = tag == OPENING
            yield AnswerPart("", "start" if self._is_thinking else "end")
        self._is_fenced, self._line = False, ""

    def _is_text(self, tag: str, before: str, after: str) -> bool:
        is_quoted = before in self._quotes and after == _CLOSING_QUOTES.get(before, before)
        return is_quoted or (self._is_thinking and tag == OPENING) or (self._is_fenced and not self._is_thinking)

    @property
    def _quotes(self) -> frozenset[str]:
        """The quotes that count: a thought and the answer after it may end and begin with the same quotation mark."""
        return _CODE_QUOTES if self._is_thinking else _QUOTES

    def _read_fences(self, text: str) -> None:
        """Notice where blocks of code begin and end."""
        if self._is_thinking:
            return
        *lines, last = text.split("\n")
        for line in lines:
            self._is_fenced ^= _FENCE.match(self._line + line[:_FENCE_CHARS]) is not None
            self._line = ""
        self._line = (self._line + last[:_FENCE_CHARS])[:_FENCE_CHARS]

    def _find_begun_tag(self, whole: str, start: int) -> int:
        """Return where a tag begins whose rest may follow, or the length of the text."""
        begun = whole.rfind("<", start)
        tags = (CLOSING,) if self._is_thinking else (OPENING, CLOSING)
        return begun if begun >= 0 and any(tag.startswith(whole[begun:]) for tag in tags) else len(whole)


def split_answer(answer: str) -> list[AnswerPart]:
    """Return the parts of a complete answer as they would be if it were streamed."""
    splitter = ThinkingSplitter()
    return [*splitter.feed(answer), *splitter.finish()]


def split_thinking(answer: str) -> list[AnswerPart]:
    """Return the parts of a complete answer; thinking that was never opened is a section, and an aside.

    >>> [part.text for part in split_thinking("<think>hm</think>Yes")]
    ['', 'hm', '', 'Yes']
    >>> [part.text or part.mark for part in split_thinking("hm</think>Yes")]
    ['start', 'hm', 'end', 'Yes']
    """
    if not _ANY_MARK.search(answer):
        return [AnswerPart(answer)] if answer else []
    parts: list[AnswerPart] = []
    text_start = 0
    for part in split_answer(answer):
        if part.mark == "unopened":
            thought = "".join(each.text for each in parts[text_start:])
            parts[text_start:] = as_aside(thought)
        else:
            parts.append(part)
        if part.mark:
            text_start = len(parts)
    return parts


def as_aside(thought: str) -> list[AnswerPart]:
    """Return the parts that show a thought without storing it."""
    if not thought:
        return []
    return [AnswerPart("", "start", is_aside=True), AnswerPart(thought, is_aside=True), AnswerPart("", "end", True)]


def strip_thinking(answer: str) -> str:
    """Return a complete answer without its thinking sections.

    A section without an opening tag, which some models omit, starts at the beginning of the answer or after the last
    section. A section that is never closed is treated as text.

    >>> strip_thinking("<think>hm</think>Yes. <think>well</think>No."), strip_thinking("hm</think>Yes")
    ('Yes. No.', 'Yes')
    """
    kept: list[str] = []
    opened: list[str] | None = None
    for part in split_thinking(answer):
        if part.is_aside:
            continue
        if part.mark:
            opened = [OPENING] if part.mark == "start" else None
        else:
            (kept if opened is None else opened).append(part.text)
    return "".join([*kept, *(opened or ())])


def split_thoughts(answer: str) -> tuple[str, str]:
    """Return the text of an answer's thinking sections, including an unclosed one, and the rest.

    >>> split_thoughts("<think>hm</think>Yes<think>but")
    ('hmbut', 'Yes')
    """
    parts: dict[bool, list[str]] = {True: [], False: []}
    is_thinking = False
    for part in split_thinking(answer):
        is_thinking = part.mark == "start" if part.mark else is_thinking
        parts[is_thinking].append(part.text)
    return "".join(parts[True]), "".join(parts[False])


def find_thinking_problem(answer: str) -> str:
    """Return what is wrong with an answer that has thinking and nothing else; ``""`` for any other answer.

    >>> find_thinking_problem("<think>hm"), find_thinking_problem("<think>hm</think>Yes")
    ('The answer of the model is only thinking, which it did not end', '')
    """
    thought, text = split_thoughts(answer)
    if text.strip() or not thought.strip():
        return ""
    last = next(part.mark for part in reversed(split_thinking(answer)) if part.mark)
    return "The answer of the model is only thinking" + (", which it did not end" if last == "start" else "")


def is_shown(text: str, start: int, end: int) -> bool:
    """Return whether a piece of a text stands in a block of code or in quotes: the text is then about it.

    >>> is_shown("Write `<a>` here", 7, 10), is_shown("Write <a> here", 6, 9)
    (True, False)
    """
    if len(_FENCES.findall(text, 0, start)) % 2:
        return True
    before, after = text[text.rfind("\n", 0, start) + 1 : start], text[end:].split("\n", 1)[0]
    if before.lstrip().startswith(">"):
        return True
    is_held = before[-1:] in _QUOTES and after[:1] == _CLOSING_QUOTES.get(before[-1:], before[-1:])
    is_open = any(before.count(quote) % 2 and quote in after for quote in '`"')
    return is_held or is_open or any(before.rfind(a) > before.rfind(b) and b in after for a, b in _PAIRS)


def strip_tags(text: str) -> str:
    """Remove the tags of thinking sections; their text stays in the stored answer, as in RAGFlow.

    Only thinking without an opening tag goes with its tag.

    >>> strip_tags("<think>hm</think>Yes"), strip_tags("hm</think>Yes")
    ('hmYes', 'Yes')
    """
    return "".join(part.text for part in split_thinking(text) if not part.is_aside)
