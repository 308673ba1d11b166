"""A session that is stored together with its first run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Required

from typing_extensions import TypedDict

from ragflow_lg.server.agents.quotas import Reservation
from ragflow_lg.server.database.tables import MessageRow, SessionRow, VersionRow


class NewSession(NamedTuple):
    """A session that has not been stored, with its version and its first messages."""

    row: SessionRow
    version: VersionRow
    messages: list[MessageRow]
    reservation: Reservation
    """Its place in the quota of sessions."""


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
