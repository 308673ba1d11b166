"""Showing a model's answer as a thought instead of as the answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ragflow_lg.base.thinking import AnswerPart, split_thinking

if TYPE_CHECKING:
    from ragflow_lg.agents.agent_run import AgentRun
    from ragflow_lg.models.model_call import AnswerStream


def make_thought_sink(run: AgentRun, *, is_text_shown: bool = True) -> ThoughtSink | None:
    """Return a sink for a run's thoughts, or None if the run does not stream."""
    return None if run.stream is None else ThoughtSink(run.stream, is_text_shown=is_text_shown)


class ThoughtSink:
    """Shows a model answer as a thought, either all of it or only its thinking sections."""

    def __init__(self, stream: AnswerStream, *, is_text_shown: bool) -> None:
        self._stream = stream
        self._is_text_shown = is_text_shown
        self._is_thinking = False

    @property
    def text(self) -> str:
        """The text shown so far."""
        return self._stream.text

    def begin(self) -> None:
        """Start another answer."""
        self._stream.begin()
        self._is_thinking = False

    async def write(self, parts: Iterable[AnswerPart]) -> None:
        """Show parts of the answer."""
        for part in parts:
            if part.mark:
                self._is_thinking = part.mark == "start"
            elif self._is_text_shown or self._is_thinking:
                await self._stream.write_thought(part.text)

    async def replay(self, text: str) -> None:
        """Show a complete answer, including tags, from before a crash."""
        self.begin()
        await self.write(split_thinking(text))
