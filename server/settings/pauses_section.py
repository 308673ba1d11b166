"""The section for forms that nobody answers."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from ragflow_lg.server.settings.sections import Section

MAX_TIMEOUT_S = 366 * 24 * 3600

PauseAnswerKind: TypeAlias = Literal["defaults", "cancel"]


class PausesSection(Section):
    """``[pauses]``: what happens to forms that nobody answers. Agents can have values of their own."""

    timeout_s: Annotated[int, Field(ge=0, le=MAX_TIMEOUT_S)] = 0
    """How long a form waits for its answer. 0: for ever, as in RAGFlow."""
    answer: PauseAnswerKind = "defaults"
    """``defaults`` answers the form with the values of its fields, ``cancel`` cancels the turn."""
