"""The session of a turn, and what a user sent for it: as readable text, and as a hash."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, Required, cast

from typing_extensions import TypedDict

from ragflow_lg.base.values import to_text
from ragflow_lg.server.database.tables import TITLE_CHARS, MessageRow, RunRow, SessionRow, VersionRow

if TYPE_CHECKING:
    from ragflow_lg.component.state import TurnRequest
    from ragflow_lg.runs.pauses import BoundRequest, Pause
    from ragflow_lg.runs.runner import Runner
    from ragflow_lg.server.database.tables import VersionRow
NAME_CHARS = 250
"""How much of the first question is used as a session's name."""


class TurnSession(NamedTuple):
    """A session that is stored, or a new one, which is stored together with its first run."""

    row: SessionRow
    version: VersionRow | None = None
    """Its version, if that has been read."""
    newest_run: RunRow | None = None
    """Its run that started last, if the version has been read."""
    messages: Sequence[MessageRow] | None = None
    """What a new one begins with; None for one that is stored."""
    after: str = ""
    """The run that the client has named as the one before the turn, or ``""``."""

    @property
    def is_new(self) -> bool:
        """Whether the session has not been stored."""
        return self.messages is not None


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


def hash_request(request: TurnRequest) -> str:
    """Return a hash of what a user sent."""
    parts = [request.get(key) for key in ("query", "inputs", "files", "payload")]
    return sha256(json.dumps(parts, default=repr).encode()).hexdigest()


def question_text(request: TurnRequest) -> str:
    """Return the user's input as readable text: the query, or else one line for each field in a form."""
    query = request.get("query")
    if query:
        return to_text(query)
    return "\n".join(_line(name, field) for name, field in (request.get("inputs") or {}).items())


async def find_question(runner: Runner, session: str, request: BoundRequest) -> str:
    """Return `question_text`, with the labels of the forms that the request answers if it names them."""
    ids, inputs = request.get("pauses"), request.get("inputs") or {}
    if not ids or request.get("query"):
        return question_text(request)
    pauses = [pause for pause in await runner.pauses(session) if pause.id in ids]
    answers = {pause.id: {name: inputs[name] for name in pause.inputs if name in inputs} for pause in pauses}
    return answer_text(pauses, answers) or question_text(request)


def shows_form(request: TurnRequest) -> bool | None:
    """Return whether `question_text` or `answer_text` shows the values of a form; None if the request has neither."""
    query = request.get("query")
    if isinstance(query, str) and query:
        return False
    return True if query or request.get("inputs") else None


def answer_text(pauses: Sequence[Pause], answers: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the answers to forms, by pause id, as readable text: one line for each field, with its label."""
    forms = {pause.id: pause.inputs for pause in pauses}
    return "\n".join(
        _line(to_text(forms[id_].get(name, {}).get("name") or name), field)
        for id_, fields in answers.items()
        for name, field in fields.items()
    )


def _line(label: str, field: Any) -> str:
    value: Any = cast("Mapping[str, Any]", field).get("value") if isinstance(field, dict) else field
    return f"{label}: {to_text(value)}"


def copy_session(session: SessionRow, id_: str, name: str, version: VersionRow | None, now_ms: int) -> SessionRow:
    """Return a copy of a session under a new id, which may have another name and use another version."""
    return SessionRow(
        id=id_,
        agent_id=session.agent_id,
        version_id=version.id if version is not None else session.version_id,
        user_id=session.user_id,
        exp_user_id=session.exp_user_id,
        name=(name or session.name)[: min(NAME_CHARS, TITLE_CHARS)],
        source="workflow"
        if session.source in ("schedule", "webhook")
        else session.source,  # a copy is used by a person
        create_ms=now_ms,
        update_ms=now_ms,
    )


def copy_messages(messages: Sequence[MessageRow], session_id: str) -> list[MessageRow]:
    """Return copies of messages, numbered from 0, for another session."""
    return [
        MessageRow(
            session_id=session_id,
            number=number,
            role=row.role,
            content=row.content,
            run_id=row.run_id,
            reference=row.reference,
            files=row.files,
            is_form=row.is_form,
            create_ms=row.create_ms,
        )
        for number, row in enumerate(messages)
    ]


def messages_before(messages: Sequence[MessageRow], users: int, *, is_open: bool) -> list[MessageRow]:
    """Return the messages up to the user's ``users``-th one, without the answer if that turn is still open."""
    rows: list[MessageRow] = []
    for row in messages:
        if row.role == "user":
            if not users:
                break
            users -= 1
        elif is_open and not users and any(one.role == "user" for one in rows):
            break
        rows.append(row)
    return rows
