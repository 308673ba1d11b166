"""Stores a run in the database when it ends."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.server.database.stored_reference import add_sources, empty_reference, write_reference
from ragflow_lg.server.database.turn_writer import EndedTurn, write_turn

if TYPE_CHECKING:
    from ragflow_lg.runs.run import Run
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.runs.failover import EndedRun

logger = logging.getLogger(__name__)


async def store_end(
    app_state: AppState,
    tenant: str,
    run: Run | EndedRun,
    answer: str,
    question: str | None,
    start_ms: int,
    stored_bytes: int,
    *,
    has_begun: bool,
    is_taken_over: bool,
) -> None:
    """Store the end of a run with its question and answer. The run does not fail if the database does.

    What the run has stored in a session that was deleted before it began is deleted as well.

    ``is_taken_over`` means that another process started the run and may have stored part of it.
    """
    envelope = run.envelope
    has_begun = has_begun or (is_taken_over and run.status == "failed")
    reference = empty_reference()
    add_sources(reference, run.collected.reference)
    turn = EndedTurn(
        envelope.message_id,
        envelope.session_id,
        "refused" if run.status == "failed" and not has_begun else run.status,
        run.error or "",
        run.usage,
        start_ms,
        app_state.now_ms(),
        question=question,
        answer=answer or run.collected.tips,
        reference=write_reference(reference),
        has_begun=has_begun,
        lease_token=run.lease_token,
        continued_run=run.continued_run,
        is_taken_over=is_taken_over,
        stored_bytes=stored_bytes,
        pause_timeout_s=app_state.settings.pauses.timeout_s,
    )
    try:
        if not await write_turn(app_state.database, tenant, turn):
            await app_state.store.delete_session(turn.session_id)
    except RagflowLgError as failure:
        logger.error("the end of run %s cannot be stored: %s", envelope.message_id, failure)
