"""The voice of a run, if its canvas has Messages that are spoken and the settings have a model for that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ragflow_lg.runs.run import Run
from ragflow_lg.runs.speaker import Speaker
from ragflow_lg.services.chat import NO_USAGE, Usage

if TYPE_CHECKING:
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.server.runs.continuation import EndedRun
    from ragflow_lg.server.streaming.event_codec import StreamEvent

DEFAULT_MODEL = "env.tts_id"
"""The variable of a canvas that names the model of all its Messages."""


class AnswerVoice:
    """Opens the voice of a run, and knows its usage."""

    def __init__(self, run: Run | EndedRun) -> None:
        self._run = run
        self._speaker: Speaker | None = None

    @property
    def usage(self) -> Usage:
        """What speaking has used."""
        return self._speaker.usage if self._speaker is not None else NO_USAGE

    def open(self, publish: Callable[[StreamEvent], Awaitable[None]]) -> Speaker | None:
        """Return the voice, or None."""
        if isinstance(self._run, Run) and self._run.services.speech.can_speak:
            models = spoken_messages(self._run.plan)
            self._speaker = Speaker(self._run.services.speech, models, publish) if models else None
        return self._speaker


def spoken_messages(plan: Plan) -> dict[str, str]:
    """Return the ids of the models of the Messages that are spoken, by node."""
    default = plan.globals.get(DEFAULT_MODEL)
    spoken = {id_: plan.nodes[id_].params for id_ in plan.messages if id_ in plan.nodes}
    return {
        str(id_): str(getattr(params, "tts_id", "") or default or "")
        for id_, params in spoken.items()
        if getattr(params, "auto_play", False)
    }
