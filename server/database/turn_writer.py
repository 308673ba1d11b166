"""Stores the end of a turn in one transaction: its run, its messages with sources, and the totals of its session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import orjson
from msgspec import Struct
from sqlalchemy import func, select

from ragflow_lg.dsl.forms import stored_files
from ragflow_lg.server.database.due_rows import write_pause_timeout
from ragflow_lg.server.database.tables import MessageRow, RunRow, SessionRow, UsageRow
from ragflow_lg.server.database.usage_repository import DAY_MS

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

    from ragflow_lg.server.database.database import Database
    from ragflow_lg.services.chat import Usage


class ClosedRow(Struct, frozen=True):
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
    """The sources that the answer cites, as written by `write_reference`."""
    files: str = ""
    """The files of the question, as written by `write_files`."""
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
    nodes: int | None = None
    """How many nodes have run; None if that is not known."""
    pause_timeout_s: int = 0
    """How long a form waits for its answer if the agent does not say it; 0 for ever."""


async def write_turn(database: Database, tenant: str, turn: ClosedRow, *, is_repeated: bool = False) -> bool:
    """Store a turn in one transaction. If its session has been deleted, store at most the run and return False.

    Nothing is stored for a run that has ended under a later lease. If a run was taken over, the part already stored is
    replaced. If it ``is_repeated``, a transaction whose end is not known may have stored the turn.

    Raises:
        DatabaseError: If the database fails.
    """
    find_run = select(RunRow).where(RunRow.tenant == tenant, RunRow.id == turn.run_id).with_for_update()
    find_session = select(SessionRow).where(SessionRow.tenant == tenant, SessionRow.id == turn.session_id)
    async with database.writing() as db:
        run = await db.scalar(find_run)
        end = (turn.status, turn.end_ms, turn.lease_token)
        if is_repeated and run is not None and (run.status, run.end_ms, run.lease_token) == end:
            return True
        if run is None or run.lease_token > turn.lease_token:
            return await db.scalar(find_session) is not None
        counted = await _count_tokens(db, tenant, turn)
        run.status, run.end_ms, run.lease_token = end
        run.error, run.asked = turn.error, ""
        run.prompt_tokens, run.completion_tokens = turn.usage.prompt_tokens, turn.usage.completion_tokens
        run.nodes = turn.nodes
        if not turn.has_begun:
            return True
        if turn.status == "waiting":
            await write_pause_timeout(db, run, turn.end_ms, turn.pause_timeout_s)
        await _add_usage(db, run, turn, counted)
        # The lock keeps other writers from numbering messages.
        session = await db.scalar(find_session.with_for_update())
        if session is None:
            return False
        await _add_turn(db, session, run, turn, counted)
        return True


async def _count_tokens(db: AsyncSession, tenant: str, turn: ClosedRow) -> int:
    """Return the tokens of an interrupted run that its session already contains."""
    if not turn.continued_run:
        return 0
    of_run = (RunRow.tenant == tenant, RunRow.id == turn.continued_run, RunRow.session_id == turn.session_id)
    return await db.scalar(select(RunRow.prompt_tokens + RunRow.completion_tokens).where(*of_run)) or 0


async def _add_usage(db: AsyncSession, run: RunRow, turn: ClosedRow, counted: int) -> None:
    """Add to the day on which the turn began, for the tenant and for the key of the page that began the run, if any.

    The key has no costs.
    """
    tokens = turn.usage.prompt_tokens + turn.usage.completion_tokens
    cost = round(turn.usage.cost * (1 - counted / tokens if tokens else 1) * 1e6)
    if tokens == counted and not cost:
        return
    of_day = (UsageRow.tenant == run.tenant, UsageRow.day == turn.start_ms // DAY_MS)
    found = select(UsageRow).where(*of_day, UsageRow.page_key.in_({"", run.page_key}))
    for row in await db.scalars(found.order_by(UsageRow.page_key).with_for_update()):
        row.tokens += tokens - counted
        row.micro_cost += 0 if row.page_key else cost


async def _add_turn(db: AsyncSession, session: SessionRow, run: RunRow, turn: ClosedRow, counted: int) -> None:
    """Add a turn to its session and store its messages, or replace the part of the answer already stored."""
    mine = (MessageRow.tenant == session.tenant, MessageRow.session_id == session.id)
    stored = None
    if turn.is_taken_over:
        answers = select(MessageRow).where(*mine, MessageRow.run_id == turn.run_id, MessageRow.role == "assistant")
        stored = await db.scalar(answers)
    session.tokens += turn.usage.prompt_tokens + turn.usage.completion_tokens - counted
    session.duration_s += (turn.end_ms - (turn.start_ms if stored is None else stored.create_ms)) / 1000
    session.stored_bytes += turn.stored_bytes
    session.errors, session.update_ms = turn.error, turn.end_ms
    if stored is not None:
        stored.content, stored.reference, stored.create_ms = turn.answer, turn.reference, turn.end_ms
        return
    session.rounds += 1
    newest = await db.scalar(select(func.max(MessageRow.number)).where(*mine))
    messages = [MessageRow(role="assistant", content=turn.answer, reference=turn.reference, create_ms=turn.end_ms)]
    if turn.question is not None:
        asked = MessageRow(role="user", content=turn.question, files=turn.files, create_ms=turn.start_ms)
        asked.is_form = run.is_form
        messages.insert(0, asked)
    for number, row in enumerate(messages, 0 if newest is None else newest + 1):
        row.tenant, row.session_id, row.run_id, row.number = session.tenant, session.id, turn.run_id, number
    db.add_all(messages)


Reference: TypeAlias = dict[str, dict[str, Any]]
"""``{"chunks": {number: chunk}, "doc_aggs": {document name: document}}``, as in RAGFlow's sessions."""


def to_reference(sources: Any) -> Reference:
    """Return the reference with the ``reference`` of a ``message_end``. Anything in another shape is ignored."""
    reference: Reference = {"chunks": {}, "doc_aggs": {}}
    for name, rows in reference.items():
        added: Any = cast("Mapping[str, Any]", sources).get(name) if isinstance(sources, dict) else None
        if isinstance(added, dict):
            known = cast("Mapping[Any, Any]", added)
            rows |= {str(key): row for key, row in known.items() if isinstance(row, dict)}
    return reference


def write_reference(sources: Any) -> str:
    """Return the text that is stored: JSON, or ``""`` if nothing is cited."""
    reference = to_reference(sources)
    return orjson.dumps(reference).decode() if any(reference.values()) else ""


def read_reference(text: str) -> Reference:
    """Return a stored reference."""
    return to_reference(orjson.loads(text) if text else {})


def write_files(files: Any) -> str:
    """Return the text that is stored for the files of a request: JSON with their ids and names, or ``""``."""
    known = _known_files(files)
    return orjson.dumps(known).decode() if known else ""


def read_files(text: str | None) -> list[dict[str, str]]:
    """Return stored files."""
    return _known_files(orjson.loads(text) if text else None)


def _known_files(files: Any) -> list[dict[str, str]]:
    """Return the files with an id. Anything in another shape is ignored."""
    return [file for file in stored_files(cast("list[Any]", files)) if file] if isinstance(files, list) else []


def read_chunks(text: str) -> list[dict[str, Any]]:
    """Return the chunks of a stored reference, each with its number as ``citation_id``."""
    return list_chunks(read_reference(text))


def list_chunks(reference: Reference) -> list[dict[str, Any]]:
    """Return the chunks of a reference, each with its number as ``citation_id``."""
    return [{**chunk, "citation_id": number} for number, chunk in reference["chunks"].items()]
