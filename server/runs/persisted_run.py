"""A run that is stored in the database before its followers see that it has ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Protocol, cast

from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.server.database.stored_reference import add_sources, empty_reference, write_reference
from ragflow_lg.server.database.turn_writer import EndedTurn, write_turn
from ragflow_lg.server.streaming.run_task import Playable
from ragflow_lg.wire.wire_events import Envelope, MessageEnd, UserInputs

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.streaming import StreamEvent
    from ragflow_lg.server.streaming.run_task import Publish
    from ragflow_lg.services.chat import Usage

logger = logging.getLogger(__name__)


class Persistable(Playable, Protocol):
    """A run that reports its outcome when it ends."""

    @property
    def answer(self) -> str:
        """The text of all messages without thinking."""
        ...

    @property
    def error(self) -> str | None:
        """The error that stopped the turn, or None."""
        ...

    @property
    def usage(self) -> Usage:
        """The turn's model usage."""
        ...

    @property
    def continued_run(self) -> str:
        """The id of the interrupted run whose usage is included, or ``""``."""
        ...

    @property
    def lease_token(self) -> int:
        """The run's lease token; 0 if it did not get a lease."""
        ...


class PersistedRun:
    """Executes a run for the run manager, and stores its question, answer and status when it ends, however it ends.

    It reads the run, not the journal, so it does not count as a follower and does not keep an abandoned run alive.
    """

    def __init__(
        self,
        run: Persistable,
        app_state: AppState,
        tenant: str,
        question: str | None,
        start_ms: int,
        pending_writes: set[asyncio.Task[None]],
        on_end: Callable[[], None],
        count_bytes: Callable[[int], None],
        *,
        is_taken_over: bool,
    ) -> None:
        """Wrap a run.

        Args:
            run: The run to execute.
            app_state: The server's parts.
            tenant: The run's owner.
            question: The user's question as readable text, or None if there is none.
            start_ms: Start of the run in epoch milliseconds.
            pending_writes: Contains the task that stores the end for as long as it is running.
            on_end: Called when the end has been stored.
            count_bytes: Called with the bytes that the turn has written to the session store.
            is_taken_over: Whether another process started the run and may have stored part of it.
        """
        self._on_end = on_end
        self._count_bytes = count_bytes
        self._is_taken_over = is_taken_over
        self._run = run
        self._app_state = app_state
        self._tenant = tenant
        self._question = question
        self._start_ms = start_ms
        self._pending_writes = pending_writes
        self._reference = empty_reference()
        self._tips = ""
        self._has_begun = False

    @property
    def envelope(self) -> Envelope:
        """The fields shared by all of the run's frames."""
        return self._run.envelope

    @property
    def status(self) -> str:
        """The run's status; see `ragflow_lg.runs.run.Run.status`."""
        return self._run.status

    def cancel(self) -> None:
        """Stop the turn."""
        self._run.cancel()

    def drain(self) -> None:
        """Stop at the end of the current superstep."""
        self._run.drain()

    def interrupt(self) -> None:
        """Stop without waiting for models; the turn can be continued elsewhere."""
        self._run.interrupt()

    async def with_records(self, publish: Publish | None = None) -> AsyncGenerator[StreamEvent]:
        """Run the turn. Returns after its end has been stored."""
        try:
            async with aclosing(cast("AsyncGenerator[StreamEvent]", self._run.with_records(publish))) as events:
                async for event in events:
                    self._has_begun = True
                    if isinstance(event, MessageEnd):
                        add_sources(self._reference, event.extras.get("reference"))
                    elif isinstance(event, UserInputs):
                        self._tips = event.tips
                    yield event
        finally:
            # A separate task, so that cancelling the run does not cancel the write.
            write = asyncio.create_task(self._write())
            self._pending_writes.add(write)
            write.add_done_callback(self._pending_writes.discard)
            write.add_done_callback(lambda _: self._on_end())
            await asyncio.shield(write)

    async def _write(self) -> None:
        """Store the end of the run with its question and answer. The run does not fail if the database does."""
        run, envelope = self._run, self._run.envelope
        has_begun = self._has_begun or (self._is_taken_over and run.status == "failed")
        stored_bytes = self._app_state.store.take_written_bytes(envelope.session_id)
        self._count_bytes(stored_bytes)
        turn = EndedTurn(
            envelope.message_id,
            envelope.session_id,
            "refused" if run.status == "failed" and not has_begun else run.status,
            run.error or "",
            run.usage,
            self._start_ms,
            self._app_state.now_ms(),
            question=self._question,
            answer=run.answer or self._tips,
            reference=write_reference(self._reference),
            has_begun=has_begun,
            lease_token=run.lease_token,
            continued_run=run.continued_run,
            is_taken_over=self._is_taken_over,
            stored_bytes=stored_bytes,
        )
        try:
            await write_turn(self._app_state.database, self._tenant, turn)
        except RagflowLgError as failure:
            logger.error("run %s cannot be stored in the database: %s", envelope.message_id, failure)
