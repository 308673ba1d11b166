"""Stores a run in the database when it ends, with what its voice has used."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ragflow_lg.base.errors import DatabaseError, RagflowLgError
from ragflow_lg.runs.run import Run
from ragflow_lg.runs.speaker import Speaker
from ragflow_lg.server.database.turn_writer import ClosedRow, write_files, write_reference, write_turn
from ragflow_lg.services.speech import Speech

if TYPE_CHECKING:
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.observability.operations import Metrics
    from ragflow_lg.server.runs.continuation import Continuation, EndedRun
    from ragflow_lg.server.streaming.event_codec import StreamEvent
    from ragflow_lg.server.streaming.new_run import NewRun

PAUSES_S = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""How long to wait before the end of a run is stored again: longer than a database takes to restart."""

DEFAULT_MODEL = "env.tts_id"
"""The variable of a canvas that names the model of all its Messages."""

logger = logging.getLogger(__name__)


def do_not_release() -> None:
    """Do nothing: the run holds nothing in this process."""


def spoken_messages(plan: Plan) -> dict[str, str]:
    """Return the ids of the models of the Messages that are spoken, by node."""
    default = plan.globals.get(DEFAULT_MODEL)
    spoken = {id_: plan.nodes[id_].params for id_ in plan.messages if id_ in plan.nodes}
    return {
        str(id_): str(getattr(params, "tts_id", "") or default or "")
        for id_, params in spoken.items()
        if getattr(params, "auto_play", False)
    }


class Ending(Struct, eq=False):
    """What the end of a run needs."""

    app_state: AppState
    metrics: Metrics
    run: Run | EndedRun
    new: NewRun
    is_taken_over: bool
    """Whether another process started the run and may have stored part of it."""
    replay: Continuation | None = None
    free_slot: Callable[[], None] = do_not_release
    speaker: Speaker | None = None
    """The voice of the run, if its canvas has Messages that are spoken and the settings have a model for that."""

    def open_voice(self, publish: Callable[[StreamEvent], Awaitable[None]]) -> Speaker | None:
        """Return the voice, or None."""
        if isinstance(self.run, Run) and (models := spoken_messages(self.run.plan)):
            speech = self.run.services.integrations.get(Speech)
            self.speaker = Speaker(speech, models, publish) if speech and speech.can_speak else None
        return self.speaker

    async def store(self, has_begun: bool, is_interrupted: bool) -> None:
        """Store the end of the run, and release what it holds. The run does not fail if the database does.

        A run that is stopped by force is cancelled. If it ``is_interrupted``, it may go on in another process.
        What the run has stored in a session that was deleted before it began is deleted as well.
        """
        run = self.run
        if isinstance(run, Run) and run.has_started:
            self.metrics.count_run(run.status, run.elapsed_s, run.usage)
            ids = run.envelope.message_id, run.envelope.session_id
            logger.info("run %s in session %s: %s in %.3f s", *ids, run.status, run.elapsed_s)
        if self.speaker is not None:
            self.run.usage = self.run.usage.plus(self.speaker.usage)
        try:
            had_begun = self.replay is not None and self.replay.has_begun
            has_failed = self.is_taken_over and self.run.status == "failed"
            turn = self._describe(has_begun or had_begun or has_failed)
            if is_interrupted and turn.status == "cancelled":
                turn = replace(turn, status="drained")
            if not await self._write(turn):
                await self.app_state.store.delete_session(turn.session_id)
        except RagflowLgError as failure:
            logger.error("the end of run %s cannot be stored: %s", self.run.envelope.message_id, failure)
        finally:
            self.free_slot()

    async def _write(self, turn: ClosedRow) -> bool:
        """Store the turn; see `write_turn`. A database that restarts is asked again, unless this process stops."""
        for number, pause_s in enumerate(PAUSES_S):
            try:
                return await write_turn(self.app_state.database, self.new.tenant, turn, is_repeated=number > 0)
            except DatabaseError as failure:
                if self.app_state.run_manager.is_draining:
                    raise
                logger.warning("the end of run %s is stored later: %s", turn.run_id, failure)
            await asyncio.sleep(pause_s)
        return await write_turn(self.app_state.database, self.new.tenant, turn, is_repeated=True)

    def _describe(self, has_begun: bool) -> ClosedRow:
        run, app_state = self.run, self.app_state
        stored_bytes = app_state.store.take_written_bytes(run.envelope.session_id)
        answer = self.replay.answer if self.replay is not None else run.collected.text
        return ClosedRow(
            run.envelope.message_id,
            run.envelope.session_id,
            "refused" if run.status == "failed" and not has_begun else run.status,
            run.error or "",
            run.usage,
            self.new.start_ms,
            app_state.now_ms(),
            question=self.new.question,
            files=write_files(self.new.request.get("files")),
            answer=answer or (form.text if (form := run.collected.form) is not None else ""),
            reference=write_reference(run.collected.reference),
            has_begun=has_begun,
            lease_token=run.lease_token,
            continued_run=run.continued_run,
            is_taken_over=self.is_taken_over,
            stored_bytes=stored_bytes,
            nodes=len(run.collected.nodes) if self.replay is None else None,
            pause_timeout_s=app_state.settings.pauses.timeout_s,
        )
