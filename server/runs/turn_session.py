"""The session of a turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Required

from typing_extensions import TypedDict

from ragflow_lg.server.database.tables import MessageRow, RunRow, SessionRow, VersionRow


class TurnSession(NamedTuple):
    """A session that is stored, or a new one, which is stored together with its first run."""

    row: SessionRow
    version: VersionRow | None = None
    """Its version, if that has been read."""
    newest_run: RunRow | None = None
    """Its run that started last, if the version has been read."""
    messages: Sequence[MessageRow] | None = None
    """What a new one begins with; None for one that is stored."""

    @property
    def is_new(self) -> bool:
        """Whether the session has not been stored."""
        return self.messages is not None

    @property
    def new_rows(self) -> tuple[SessionRow | MessageRow, ...]:
        """What is to be stored of a new one."""
        return () if self.messages is None else (self.row, *self.messages)


class SessionFields(TypedDict, total=False):
    """What a request says about a new session.

    Without a ``name``, it is named after its first question. ``earlier`` contains pairs of role and text for display.
    The first turn's request passes them to the canvas. As in RAGFlow, only a session that is created before its first
    question begins with the prologue.
    """

    user_id: Required[str]
    source: Required[str]
    name: str
    exp_user_id: str
    earlier: Sequence[Sequence[str]]
    has_prologue: bool
    conversation: str
    visitor: str
