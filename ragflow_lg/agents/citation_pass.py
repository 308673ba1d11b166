"""Rewriting of an agent's answer with citations if the first version has none.

Once there is something to cite, the prompt asks for citations, and the model usually cites. From then on its text is
held back until it contains a citation; an answer that ends without one is rewritten by a separate model call. If there
was something to cite from the start, only answers in longer conversations are held back: models imitate their earlier
answers and forget the guidelines. Source: RAGFlow's ``agent/component/agent_with_tools.py``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ragflow_lg.agents.agent_log import CITATIONS_NOTE, agent_log_of
from ragflow_lg.base.errors import RunCancelled, ServiceError
from ragflow_lg.base.thinking import AnswerPart, split_thoughts, strip_thinking
from ragflow_lg.component.decorator import RunContext
from ragflow_lg.models.answer_stream import AnswerStream
from ragflow_lg.models.citations import build_citation_prompt, find_known_citations
from ragflow_lg.models.engine_prompts import engine_prompt
from ragflow_lg.services.chat import NO_USAGE, ChatRequest

if TYPE_CHECKING:
    from ragflow_lg.agents.agent_run import AgentLoop

logger = logging.getLogger(__name__)

_POSITION = "citations"
_MARKER_CHARS = 16
"""Length of the longest citation."""
_LONG_CONVERSATION = 6
"""In a conversation with fewer messages, an answer from sources that were there from the start is not held back."""


class CitingStream(AnswerStream):
    """An answer stream that, once there is something to cite, holds text back until it contains a citation.

    ``message_count`` is the number of messages in the request, including earlier turns.
    """

    def __init__(self, ctx: RunContext, message_count: int) -> None:
        super().__init__(ctx, cites=True)
        self._pending = ""
        self._is_always_open = bool(ctx.references["chunks"]) and message_count < _LONG_CONVERSATION
        self._is_open = self._is_always_open
        self._is_old = ctx.compatibility.old_values and not self._is_always_open
        self.shown_prefix = ""
        """Text that has already been shown and is dropped from the beginning of the next answer."""

    def begin(self) -> None:
        """Start another model answer."""
        super().begin()
        self._is_open = self._is_always_open

    async def write_parts(self, parts: Iterable[AnswerPart]) -> None:
        """Show parts or, with ``old_values``, hold all back that follow a finding, ends of sections included."""
        if not self._is_old or not self._ctx.references["chunks"]:
            return await super().write_parts(parts)
        for part in parts:
            self._pending += part.source
            self._is_thinking = part.mark == "start" if part.mark else self._is_thinking
        return None

    async def finish_text(self) -> None:
        """Show the pending text when the text ends, whether a thought, a call or nothing follows."""
        await self.release()
        await super().finish_text()

    async def write_answer_text(self, part: AnswerPart) -> None:
        """Show a piece of the answer, or hold it back."""
        references = self._ctx.references
        if self._is_open or self._is_old or not references["chunks"]:
            await super().write_answer_text(part)
            return
        self._pending += part.text
        if find_known_citations(self._pending[-len(part.text) - _MARKER_CHARS :], references):
            self._is_open = True
            await self.release()

    def ends_old(self) -> bool:
        """Hold nothing back any more; return whether text was held back with ``old_values``."""
        is_old, self._is_old = self._is_old, False
        self._is_always_open = self._is_always_open or is_old
        return is_old

    def take_pending(self) -> str:
        """Return the pending text and discard it."""
        text, self._pending = self._pending, ""
        return text

    async def release(self) -> None:
        """Show the pending text."""
        if self._is_old:
            return
        text = self.take_pending()
        if self.shown_prefix and text.startswith(self.shown_prefix):
            text = text[len(self.shown_prefix) :]
        if text:
            await super().write_answer_text(AnswerPart(text))


async def show_with_citations(run: AgentLoop, stream: CitingStream) -> None:
    """Rewrite a pending answer without citations and show it; fall back to the original if rewriting fails."""
    answer = stream.take_pending()
    if not answer.strip():
        return await _show(stream, answer)
    ctx, before = run.ctx, stream.text
    room = run.model.context_tokens // 2
    is_old = stream.ends_old()
    system = build_citation_prompt(ctx, run.guidelines or engine_prompt(ctx, "citation_guidelines"), room)
    question, tools = (before + answer, run.toolbox.schemas) if is_old else (answer, ())
    request = ChatRequest(system, ({"role": "user", "content": question},), run.request.sampling, tools=tools)
    stream.shown_prefix = "" if is_old else split_thoughts(before)[1]
    try:
        rewritten = (await run.ask(request, _POSITION, stream)).text
    except RunCancelled:
        raise
    except ServiceError as error:
        if is_old or stream.text != before:
            raise
        logger.warning("Could not add citations to the answer of %s; it is shown without them: %s", ctx.node.id, error)
        rewritten = ""
    stream.take_pending()
    if stream.text == before and not is_old:
        return await _show(stream, answer)
    await agent_log_of(ctx).record_note(CITATIONS_NOTE, strip_thinking(rewritten), 0.0, NO_USAGE)
    stream.answer = rewritten if is_old else ""
    return None


async def _show(stream: CitingStream, text: str) -> None:
    if text:
        await AnswerStream.write_answer_text(stream, AnswerPart(text))
