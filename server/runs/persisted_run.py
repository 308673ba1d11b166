"""A run that stands in the database before its followers hear of its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol, cast

import orjson

from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.server.database.turn_writer import EndedTurn, write_turn
from ragflow_lg.server.streaming.run_task import Playable
from ragflow_lg.wire.wire_events import Envelope, MessageEnd, UserInputs

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.streaming import StreamEvent
    from ragflow_lg.services.chat import Usage

__all__ = ["Persistable", "PersistedRun", "reference_chunks"]

logger = logging.getLogger(__name__)


class Persistable(Playable, Protocol):
    """A run that tells, at its end, how it went."""

    @property
    def answer(self) -> str:
        """The text of all messages, thinking left out."""
        ...

    @property
    def error(self) -> str | None:
        """What stopped the turn, if anything did."""
        ...

    @property
    def usage(self) -> Usage:
        """What the models of the turn have been asked."""
        ...

    @property
    def lease_token(self) -> int:
        """The token of the lease that it got; 0 if it has got none."""
        ...


class PersistedRun:
    """Plays a run for the run manager, and stores what was said when it is over, however it ended.

    It goes by the run itself and not by the journal, so it is no follower: a run that all clients have left is left.
    """

    def __init__(
        self,
        run: Persistable,
        app_state: AppState,
        tenant: str,
        asked: str | None,
        start_ms: int,
        keeping: set[asyncio.Task[None]],
        on_end: Callable[[], None] = lambda: None,
        *,
        is_taken_over: bool = False,
    ) -> None:
        """``asked`` is what the user said, for people, None if nothing; ``start_ms`` epoch milliseconds.

        In ``keeping`` stands what is being stored, for as long as that takes; ``on_end`` is called when it is stored.
        Of one that ``is_taken_over`` another process may have stored how far it came.
        """
        self._on_end = on_end
        self._is_taken_over = is_taken_over
        self._run = run
        self._app_state = app_state
        self._tenant = tenant
        self._asked = asked
        self._start_ms = start_ms
        self._keeping = keeping
        self._chunks: list[Any] = []
        self._tips = ""
        self._has_begun = False

    @property
    def envelope(self) -> Envelope:
        """What all frames of the run have in common."""
        return self._run.envelope

    @property
    def status(self) -> str:
        """How the run stands; see `ragflow_lg.runs.run.Run.status`."""
        return self._run.status

    def cancel(self) -> None:
        """Stop the turn."""
        self._run.cancel()

    def drain(self) -> None:
        """Stop at the end of the superstep that runs."""
        self._run.drain()

    async def with_records(self) -> AsyncGenerator[StreamEvent]:
        """Play the turn; over once it is stored."""
        try:
            async with aclosing(cast("AsyncGenerator[StreamEvent]", self._run.with_records())) as events:
                async for event in events:
                    self._has_begun = True
                    if isinstance(event, MessageEnd):
                        self._chunks += reference_chunks(event.extras.get("reference"))
                    elif isinstance(event, UserInputs):
                        self._tips = event.tips
                    yield event
        finally:
            # A task of its own: whoever stops the run in the middle does not stop this.
            keeping = asyncio.create_task(self._keep())
            self._keeping.add(keeping)
            keeping.add_done_callback(self._keeping.discard)
            keeping.add_done_callback(lambda _: self._on_end())
            await asyncio.shield(keeping)

    async def _keep(self) -> None:
        """Store the end of the run and what was said. A database that fails breaks no run off."""
        run, envelope = self._run, self._run.envelope
        turn = EndedTurn(
            envelope.message_id,
            envelope.session_id,
            "refused" if run.status == "failed" and not self._has_begun else run.status,
            run.error or "",
            run.usage,
            self._start_ms,
            self._app_state.now_ms(),
            asked=self._asked,
            answered=run.answer or self._tips,
            reference=orjson.dumps(self._chunks).decode() if self._chunks else "",
            has_begun=self._has_begun,
            lease_token=run.lease_token,
            is_taken_over=self._is_taken_over,
        )
        try:
            await write_turn(self._app_state.database, self._tenant, turn)
        except RagflowLgError as failure:
            logger.error("run %s is not in the database: %s", envelope.message_id, failure)


def reference_chunks(reference: Any) -> list[Any]:
    """Give the chunks of a ``reference`` of ``message_end``, each with its number as ``citation_id``."""
    chunks: Any = cast("Mapping[str, Any]", reference).get("chunks") if isinstance(reference, dict) else None
    if not isinstance(chunks, dict):
        return []
    numbered = cast("Mapping[Any, Any]", chunks)
    return [{**chunk, "citation_id": str(number)} for number, chunk in numbered.items() if isinstance(chunk, dict)]
