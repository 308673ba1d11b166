"""The end of a turn, stored at once: its run, what was said, and what it adds to its session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from sqlalchemy import CursorResult, Table, func, insert, select, update

from server.database.models import MessageRow, RunRow, SessionRow

if TYPE_CHECKING:
    from ragflow_lg.services import Usage
    from server.database.database import Database

__all__ = ["EndedTurn", "keep_turn"]

# Without the mapper: a turn is written so often that its work counts.
_MESSAGES, _RUNS, _SESSIONS = (cast("Table", row.__table__) for row in (MessageRow, RunRow, SessionRow))


class EndedTurn(Struct, frozen=True):
    """What is stored of a turn. Times are epoch milliseconds."""

    run_id: str
    session_id: str
    status: str
    error: str
    usage: Usage
    start_ms: int
    end_ms: int
    asked: str
    """What the user said."""
    answered: str
    reference: str = ""
    """What the answer cites: a JSON list of chunks, or ``""``."""
    has_begun: bool = True
    """Whether anything was said: of a run that was refused only its end is stored."""


async def keep_turn(database: Database, tenant: str, turn: EndedTurn) -> None:
    """Store a turn, or nothing of it; of a session that is gone only the run.

    Raises:
        DatabaseError: if the database does not take it.
    """
    read, written = turn.usage.prompt_tokens, turn.usage.completion_tokens
    ended = {"status": turn.status, "error": turn.error, "end_ms": turn.end_ms}
    ended |= {"prompt_tokens": read, "completion_tokens": written}
    run, messages, sessions = _RUNS.c, _MESSAGES.c, _SESSIONS.c
    at_session = (sessions.tenant == tenant, sessions.id == turn.session_id)
    added = {
        "tokens": sessions.tokens + read + written,
        "rounds": sessions.rounds + 1,
        "duration_s": sessions.duration_s + (turn.end_ms - turn.start_ms) / 1000,
        "errors": turn.error,
        "update_ms": turn.end_ms,
    }
    shared = {"tenant": tenant, "session_id": turn.session_id, "run_id": turn.run_id}
    async with database.writing() as writing:
        await writing.execute(update(_RUNS).where(run.tenant == tenant, run.id == turn.run_id).values(ended))
        if not turn.has_begun:
            return
        # Changed first: so no other writer counts messages until this one has written its own.
        changed = await writing.execute(update(_SESSIONS).where(*at_session).values(added))
        if not cast("CursorResult[Any]", changed).rowcount:
            return
        wanted = select(func.max(messages.number)).where(
            messages.tenant == tenant, messages.session_id == turn.session_id
        )
        last = await writing.scalar(wanted)
        number = 0 if last is None else last + 1
        asked = {"role": "user", "content": turn.asked, "reference": "", "create_ms": turn.start_ms}
        answered = {"role": "assistant", "content": turn.answered, "reference": turn.reference}
        rows = [asked | {"number": number}, answered | {"number": number + 1, "create_ms": turn.end_ms}]
        await writing.execute(insert(_MESSAGES), [shared | row for row in rows])
