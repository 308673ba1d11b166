"""How a model's answer is shown while it arrives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.thinking import AnswerPart, as_aside, split_answer
from ragflow_lg.base.values import MAX_TEXT_CHARS
from ragflow_lg.component.decorator import RunContext
from ragflow_lg.models.citations import CitationFilter


class AnswerSink(Protocol):
    """Consumes a model's answers as they arrive, to show some of the text."""

    @property
    def text(self) -> str:
        """The text that the node has shown so far, including tags."""
        ...

    def begin(self) -> None:
        """Start another answer."""
        ...

    async def write(self, parts: Iterable[AnswerPart]) -> None:
        """Consume parts of the answer."""
        ...

    async def replay(self, text: str) -> None:
        """Consume a complete answer, including tags, from before a crash."""
        ...


class AnswerStream:
    """Streams an answer to the Message that is waiting for it. ``text`` is everything shown, including tags.

    If ``cites`` is set, unknown citations are removed. If an earlier attempt has shown text, the answer is appended.
    """

    def __init__(self, ctx: RunContext, *, cites: bool = False) -> None:
        self._ctx = ctx
        is_filtered = cites and not ctx.compatibility.old_values
        self._citations = CitationFilter(lambda number: number in ctx.references["chunks"]) if is_filtered else None
        shown = ctx.shown
        self.is_continued = bool(shown)
        """Whether an earlier attempt has shown text, which stays."""
        self._parts = split_answer(shown)
        self._text_start = len(self._parts)
        """The number of parts before the text that the model may still turn out to have thought."""
        self._chars = len(shown)
        self._is_thinking = shown.rfind("<think>") > shown.rfind("</think>")
        self._model_thinks = False
        self.answer = ""
        """What is stored in place of the shown text."""

    @property
    def text(self) -> str:
        """The text shown so far, as it is stored."""
        return "".join(part.source for part in self._parts)

    async def write_parts(self, parts: Iterable[AnswerPart]) -> None:
        """Show parts unchanged."""
        for part in parts:
            self._chars += len(part.source)
            if self._chars > MAX_TEXT_CHARS:
                raise ServiceError(f"The model's answer has more than {MAX_TEXT_CHARS:,} characters.")
            self._parts.append(part)
            if part.mark:
                self._is_thinking = part.mark == "start"
                self._text_start = len(self._parts)
            await self._ctx.delta(*part)

    async def write(self, parts: Iterable[AnswerPart]) -> None:
        """Show parts of a model's answer; its thinking continues an open thinking section."""
        for part in parts:
            if part.mark == "unopened":
                await self.withdraw_thought()
            elif part.mark:
                await self.finish_text()
                self._model_thinks = part.mark == "start"
                if self._model_thinks != self._is_thinking:
                    await self.write_parts([part])
            elif self._model_thinks:
                await self.write_parts([part])
            else:
                await self.write_answer_text(part)

    async def withdraw_thought(self) -> None:
        """Show the text since the last mark again, as thinking that is not stored."""
        await self.finish_text()
        thought = "" if self._is_thinking else "".join(part.text for part in self._parts[self._text_start :])
        if thought:
            kept = self._parts[: self._text_start]
            self._parts, self._chars = [], 0
            await self._ctx.discard_answer()
            await self.write_parts([*kept, *as_aside(thought)])
        self.begin()

    async def write_answer_text(self, part: AnswerPart) -> None:
        """Show a piece of the answer outside thinking sections."""
        await self.end_thought()
        visible = part if self._citations is None else AnswerPart(self._citations.feed(part.text))
        if visible.text:
            await self.write_parts([visible])

    async def finish_text(self) -> None:
        """Show the text that was held back, at the end of an answer."""
        if self._citations is not None and (pending := self._citations.finish()):
            await self.write_parts([AnswerPart(pending)])

    async def replay(self, text: str) -> None:
        """Show an answer, including tags, from before a crash; an earlier attempt has shown its answers itself."""
        self.begin()
        if not self.is_continued:
            await self.write(split_answer(text))

    def begin(self) -> None:
        """Start another answer of the model, outside a thinking section."""
        self._model_thinks = False
        self._text_start = len(self._parts)

    async def write_thought(self, text: str) -> None:
        """Show a thought from the engine; consecutive thoughts share a section."""
        await self.finish_text()
        if not self._is_thinking:
            await self.write_parts([AnswerPart("", "start")])
        await self.write_parts([AnswerPart(text)])

    async def end_thought(self) -> None:
        """Close the thinking section."""
        if self._is_thinking:
            await self.write_parts([AnswerPart("", "end")])
