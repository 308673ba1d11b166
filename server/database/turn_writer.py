"""Stores the end of a turn in one transaction: its run, its messages and the session's totals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from sqlalchemy import BigInteger, Table, bindparam, case, func, insert, or_, select, update

from ragflow_lg.server.database.pause_repository import write_pause_timeout
from ragflow_lg.server.database.prepared_statements import PreparedStatement
from ragflow_lg.server.database.tables import MessageRow, RunRow, SessionRow, UsageRow
from ragflow_lg.server.database.usage_repository import DAY_MS

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from ragflow_lg.server.database.database import Database
    from ragflow_lg.services.chat import Usage

# Without the ORM: turns are written so often that its overhead counts.
_MESSAGES, _RUNS, _SESSIONS, _USAGE = (
    cast("Table", row.__table__) for row in (MessageRow, RunRow, SessionRow, UsageRow)
)

_RUN_ENDS = ("status", "error", "end_ms", "lease_token")
_ENDS: dict[str, Any] = {name: bindparam(name) for name in _RUN_ENDS}
_END_RUN = PreparedStatement(
    update(_RUNS)
    .where(
        _RUNS.c.tenant == bindparam("at_tenant"),
        _RUNS.c.id == bindparam("at_id"),
        _RUNS.c.lease_token <= bindparam("lease_token"),
    )
    .values(
        {
            **_ENDS,
            "prompt_tokens": bindparam("used_prompt_tokens"),
            "completion_tokens": bindparam("used_completion_tokens"),
            "asked": "",
        }
    )
)
"""Matches nothing if the run has ended under a later lease."""
_ENDED = PreparedStatement(
    select(_RUNS.c.id.label("id")).where(
        _RUNS.c.tenant == bindparam("at_tenant"),
        _RUNS.c.id == bindparam("at_id"),
        *(_RUNS.c[name] == bindparam(name) for name in ("status", "end_ms", "lease_token")),
    )
)
"""Whether the run has got this end before."""
_ADD_TURN = PreparedStatement(
    update(_SESSIONS)
    .where(_SESSIONS.c.tenant == bindparam("at_tenant"), _SESSIONS.c.id == bindparam("at_id"))
    .values(
        tokens=_SESSIONS.c.tokens + bindparam("added_tokens"),
        rounds=_SESSIONS.c.rounds + bindparam("added_rounds"),
        duration_s=_SESSIONS.c.duration_s + bindparam("added_s"),
        stored_bytes=_SESSIONS.c.stored_bytes + bindparam("added_bytes"),
        errors=bindparam("errors"),
        update_ms=bindparam("update_ms"),
    )
)
_SESSION = PreparedStatement(
    select(_SESSIONS.c.id.label("id")).where(
        _SESSIONS.c.tenant == bindparam("at_tenant"), _SESSIONS.c.id == bindparam("at_id")
    )
)
_ADDED_COST = bindparam("added_cost", type_=BigInteger())
_ADD_USAGE = PreparedStatement(
    update(_USAGE)
    .where(
        _USAGE.c.tenant == bindparam("at_tenant"),
        _USAGE.c.day == bindparam("at_day"),
        or_(
            _USAGE.c.page_key == "",
            _USAGE.c.page_key
            == select(_RUNS.c.page_key)
            .where(_RUNS.c.tenant == bindparam("at_tenant"), _RUNS.c.id == bindparam("at_id"))
            .scalar_subquery(),
        ),
    )
    .values(
        tokens=_USAGE.c.tokens + bindparam("added_tokens"),
        micro_cost=_USAGE.c.micro_cost + case((_USAGE.c.page_key == "", _ADDED_COST), else_=0),
    )
)
"""For the day on which the turn began. The key of the embedded page that began the run, if one did, has no costs."""
_COUNTED = PreparedStatement(
    select((_RUNS.c.prompt_tokens + _RUNS.c.completion_tokens).label("tokens")).where(
        _RUNS.c.tenant == bindparam("at_tenant"),
        _RUNS.c.id == bindparam("of_run"),
        _RUNS.c.session_id == bindparam("at_id"),
    )
)
"""The tokens of an interrupted run that its session already contains."""
_LAST = PreparedStatement(
    select(func.max(_MESSAGES.c.number).label("number")).where(
        _MESSAGES.c.tenant == bindparam("at_tenant"), _MESSAGES.c.session_id == bindparam("at_id")
    )
)
_ADD_MESSAGE = PreparedStatement(insert(_MESSAGES), tuple(_MESSAGES.columns.keys()))
_OF_RUN = (
    _MESSAGES.c.tenant == bindparam("at_tenant"),
    _MESSAGES.c.session_id == bindparam("at_id"),
    _MESSAGES.c.run_id == bindparam("of_run"),
    _MESSAGES.c.role == "assistant",
)
_STORED_AT = PreparedStatement(select(_MESSAGES.c.create_ms).where(*_OF_RUN))
_ANSWER: dict[str, Any] = {name: bindparam(name) for name in ("content", "reference", "create_ms")}
_REPLACE_ANSWER = PreparedStatement(update(_MESSAGES).where(*_OF_RUN).values(_ANSWER))


class EndedTurn(Struct, frozen=True):
    """The data stored for a turn. Times are epoch milliseconds."""

    run_id: str
    session_id: str
    status: str
    error: str
    usage: Usage
    start_ms: int
    end_ms: int
    question: str | None
    """The user's question, or None if there was none."""
    answer: str
    reference: str = ""
    """The sources that the answer cites, as written by `stored_reference.write_reference`."""
    has_begun: bool = True
    """Whether the run produced events. For a refused run, only its end is stored."""
    lease_token: int = 0
    """Token of the lease under which the turn ran; 0 if it did not get one."""
    continued_run: str = ""
    """The interrupted run whose usage is included; the run itself if another process started it."""
    is_taken_over: bool = False
    """Whether another process started the run and may have stored part of it."""
    stored_bytes: int = 0
    """Bytes that the turn has written to the session store."""
    pause_timeout_s: int = 0
    """How long a form waits for its answer if the agent does not say it; 0 for ever."""


async def write_turn(database: Database, tenant: str, turn: EndedTurn, *, is_repeated: bool = False) -> bool:
    """Store a turn in one transaction. If its session has been deleted, store at most the run and return False.

    Nothing is stored for a run that has ended under a later lease. If a run was taken over, the part already stored is
    replaced. If it ``is_repeated``, a transaction whose end is not known may have stored the turn.

    Raises:
        DatabaseError: If the database fails.
    """
    usage = turn.usage
    run: dict[str, Any] = {"at_tenant": tenant, "at_id": turn.run_id, "status": turn.status, "error": turn.error}
    run |= {"end_ms": turn.end_ms, "lease_token": turn.lease_token}
    run |= {"used_prompt_tokens": usage.prompt_tokens, "used_completion_tokens": usage.completion_tokens}
    session: dict[str, Any] = {
        "at_tenant": tenant,
        "at_id": turn.session_id,
        "errors": turn.error,
        "update_ms": turn.end_ms,
    }
    session["added_rounds"] = 1
    session["added_bytes"] = turn.stored_bytes
    session["added_s"] = (turn.end_ms - turn.start_ms) / 1000

    def write(connection: Connection) -> bool:
        if is_repeated and _ENDED.first(connection, run) is not None:
            return True
        place = {"at_tenant": tenant, "at_id": turn.session_id, "of_run": turn.continued_run}
        before = _COUNTED.first(connection, place) if turn.continued_run else None
        counted = before["tokens"] if before is not None else 0
        tokens = usage.prompt_tokens + usage.completion_tokens
        session["added_tokens"] = tokens - counted
        cost = usage.cost * (1 - counted / tokens if tokens else 1)
        if not _END_RUN.execute(connection, run):
            return _SESSION.first(connection, place) is not None
        if not turn.has_begun:
            return True
        if turn.status == "waiting":
            of_turn = (tenant, turn.session_id, turn.run_id, turn.end_ms)
            write_pause_timeout(connection, *of_turn, turn.pause_timeout_s)
        added_tokens, added_cost = session["added_tokens"], round(cost * 1e6)
        if added_tokens or added_cost:
            day = {"at_tenant": tenant, "at_day": turn.start_ms // DAY_MS, "at_id": turn.run_id}
            _ADD_USAGE.execute(connection, day | {"added_tokens": added_tokens, "added_cost": added_cost})
        if turn.is_taken_over and _replace_answer(connection, tenant, turn, session):
            return True
        # Update the session first: the lock keeps other writers from numbering messages until this one has done so.
        if not _ADD_TURN.execute(connection, session):
            return False
        newest = _LAST.first(connection, {"at_tenant": tenant, "at_id": turn.session_id}) or {"number": None}
        for row in _message_rows(tenant, turn, 0 if newest["number"] is None else newest["number"] + 1):
            _ADD_MESSAGE.execute(connection, row)
        return True

    return await database.write(write)


def _replace_answer(connection: Connection, tenant: str, turn: EndedTurn, session: dict[str, Any]) -> bool:
    """Replace the part of the answer already stored. Return whether there was one."""
    place = {"at_tenant": tenant, "at_id": turn.session_id, "of_run": turn.run_id}
    stored = _STORED_AT.first(connection, place)
    if stored is None:
        return False
    answer = {"content": turn.answer, "reference": turn.reference, "create_ms": turn.end_ms}
    _REPLACE_ANSWER.execute(connection, place | answer)
    more = {"added_rounds": 0, "added_s": (turn.end_ms - stored["create_ms"]) / 1000}
    _ADD_TURN.execute(connection, session | more)
    return True


def _message_rows(tenant: str, turn: EndedTurn, number: int) -> list[dict[str, Any]]:
    """Return the rows for the turn's messages, numbered from ``number``."""
    rows = [{"role": "assistant", "content": turn.answer, "reference": turn.reference, "create_ms": turn.end_ms}]
    if turn.question is not None:
        rows.insert(0, {"role": "user", "content": turn.question, "reference": "", "create_ms": turn.start_ms})
    shared = {"tenant": tenant, "session_id": turn.session_id, "run_id": turn.run_id}
    return [shared | row | {"number": number + offset} for offset, row in enumerate(rows)]
