"""The second writing of an agent's answer, with citations, where the first has none.

Once the agent's own tools have found something to cite, its model is told so and mostly cites by itself. What it says
from then on is held back until it cites something; an answer that ends without is written again, by a call of its own.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ragflow_lg.agents.agent_log import CITATIONS, agent_log_of
from ragflow_lg.base.errors import RunCancelled, ServiceError
from ragflow_lg.base.thinking import AnswerPart, split_thinking, strip_thinking
from ragflow_lg.models.citations import build_citation_prompt, find_known_citations
from ragflow_lg.models.model_call import AnswerStream
from ragflow_lg.services.chat import NO_USAGE, ChatRequest

if TYPE_CHECKING:
    from ragflow_lg.agents.agent_run import AgentRun
    from ragflow_lg.component.context import RunContext

__all__ = ["CitingShow", "show_cited"]

logger = logging.getLogger(__name__)

_POSITION = "citations"
_MARKER_CHARS = 16
"""The longest citation."""


class CitingShow(AnswerStream):
    """Shows an answer, from the moment on where there is something to cite only once it cites something."""

    def __init__(self, ctx: RunContext) -> None:
        super().__init__(ctx, cites=True)
        self._held = ""
        self._always_open = bool(ctx.references["chunks"])
        """Where there was something to cite from the start the model was told so, and nothing is held back."""
        self._is_open = self._always_open
        self.repeated = ""
        """What has been shown already and is not to be shown again at the beginning of the next answer."""

    def begin(self) -> None:
        """Take up another answer of the model."""
        super().begin()
        self._is_open = self._always_open

    async def finish_text(self) -> None:
        """Show what was held back of a text that ends here: it is followed by a thought or a call, or by nothing."""
        await self.release()
        await super().finish_text()

    async def write_answer_text(self, part: AnswerPart) -> None:
        """Show a piece of the answer, or hold it back."""
        references = self._ctx.references
        if self._is_open or not references["chunks"]:
            await super().write_answer_text(part)
            return
        self._held += part.text
        if find_known_citations(self._held[-len(part.text) - _MARKER_CHARS :], references):
            self._is_open = True
            await self.release()

    def take_held(self) -> str:
        """Give what is held back, and hold it no longer."""
        held, self._held = self._held, ""
        return held

    async def release(self) -> None:
        """Show what is held back."""
        held = self.take_held()
        if self.repeated and held.startswith(self.repeated):
            held = held[len(self.repeated) :]
        if held:
            await super().write_answer_text(AnswerPart(held))


async def show_cited(run: AgentRun, show: CitingShow) -> None:
    """Let an answer that cites nothing be written again, and show it; as it was where that gives nothing better."""
    answer = show.take_held()
    if not answer.strip():
        return await _show(show, answer)
    ctx, before = run.ctx, show.text
    room = run.model.context_tokens // 2
    system = build_citation_prompt(ctx.references, run.guidelines, room)
    request = ChatRequest(system, ({"role": "user", "content": answer},), run.request.sampling)
    show.repeated = _spoken(before)
    try:
        cited = (await run.ask(request, _POSITION, show)).text
    except RunCancelled:
        raise
    except ServiceError as error:
        if show.text != before:
            raise
        logger.warning("The answer of %s stays without citations: %s", ctx.node.id, error)
        cited = ""
    show.take_held()
    if show.text == before:
        return await _show(show, answer)
    await agent_log_of(ctx).note(CITATIONS, strip_thinking(cited), 0.0, NO_USAGE)
    return None


def _spoken(text: str) -> str:
    """Leave out the thinking sections, the one too that is not closed yet."""
    said: list[str] = []
    is_thinking = False
    for part in split_thinking(text):
        is_thinking = part.mark == "start" if part.mark else is_thinking
        said += [] if is_thinking else [part.text]
    return "".join(said)


async def _show(show: CitingShow, text: str) -> None:
    if text:
        await AnswerStream.write_answer_text(show, AnswerPart(text))
