"""Continues runs whose process has stopped, for the followers they still have."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol, cast

from ragflow_lg.base.errors import CheckpointError, ConflictError, RagflowLgError, StreamError, StreamGapError
from ragflow_lg.base.values import to_text
from ragflow_lg.component.events import AgentRecord
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository
from ragflow_lg.wire.answer_text import message_frames
from ragflow_lg.wire.wire_events import (
    Envelope,
    Message,
    MessageEnd,
    MessageReset,
    WireNodeFinished,
    WireNodeStarted,
    WorkflowFinished,
    WorkflowStarted,
)

if TYPE_CHECKING:
    from ragflow_lg.runs.run import Run
    from ragflow_lg.runs.runner import Runner
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import AgentRow, SessionRow
    from ragflow_lg.server.streaming import StreamEvent
    from ragflow_lg.services.chat import Usage


FREE_S = 60.0
"""How long to wait for a stopped process's session; longer than its lease."""

PAUSE_S = 0.2

logger = logging.getLogger(__name__)


class ReplayFilter:
    """Passes on only those events in a continuation that followers have not received yet.

    A continuation runs unfinished nodes again. If such a node repeats text it sent before, that text is dropped. If a
    Message turns out differently, because the model answered differently, the first one is ended where it stopped and
    the new one is sent in full.
    """

    def __init__(self, events: Sequence[StreamEvent]) -> None:
        """Initialize the filter with the events that followers have received, from the beginning of the run."""
        self._open: Counter[str] = Counter()
        """Nodes reported as started but not yet as finished."""
        self._kinds: dict[str, str] = {}
        self.has_begun = False
        """Whether any node had started."""
        self.ended_text = ""
        """The text of the Messages that had ended, including text that `finish` has added to others."""
        self._message = ""
        """The Message that is sending text, or was the last to do so."""
        self._unrepeated = ""
        """The part of its text that the continuation has not yet repeated, without thinking."""
        self._repeated_text = ""
        self._is_repeating = False
        self._is_thinking = False
        for event in events:
            self._record(event)
        self._is_thinking = False
        self._is_repeating = bool(self._unrepeated)

    def _record(self, event: StreamEvent) -> None:
        if isinstance(event, WireNodeStarted):
            self.has_begun = True
            self._open[event.component_id] += 1
            self._kinds[event.component_id] = event.component_type
            if event.component_type == "Message":
                self._message = event.component_id
        elif isinstance(event, WireNodeFinished):
            self._open[event.component_id] -= 1
        elif isinstance(event, Message):
            self._unrepeated += self._visible_text(event)
        elif isinstance(event, MessageReset):
            self._is_thinking = False
            self._unrepeated = "".join(map(self._visible_text, message_frames(event.content)))
        elif isinstance(event, MessageEnd):
            self.ended_text += self._unrepeated
            self._unrepeated = ""

    def _visible_text(self, event: Message) -> str:
        """Return the text in a piece; ``""`` while the model is thinking."""
        is_thought = self._is_thinking or event.start_to_think
        self._is_thinking = is_thought and not event.end_to_think
        return "" if is_thought else event.content

    def finish(self, outputs: Mapping[str, Any]) -> Iterator[StreamEvent]:
        """Yield the missing events for a Message that ended before its followers saw its end.

        The text is taken from the stored ``outputs``.
        """
        node, self._message = self._message, ""
        node_outputs: Any = outputs.get(node)
        if not self._open[node] or not isinstance(node_outputs, dict):
            self._message = node
            return
        fields = cast("dict[str, Any]", node_outputs)
        whole = to_text(fields.get("content"))
        if whole.startswith(self._unrepeated) and "content" in fields:
            if rest := whole[len(self._unrepeated) :]:
                yield Message(rest)
            yield MessageEnd()
            yield WireNodeFinished({}, fields, node, node, self._kinds[node], None, 0.0, 0.0)
            self._open[node] -= 1
            self.ended_text += whole
            self._unrepeated, self._is_repeating = "", False

    def feed(self, event: StreamEvent) -> Iterable[StreamEvent]:
        """Return the events to send for an event from the continuation."""
        if isinstance(event, WorkflowStarted):
            return () if self.has_begun else (event,)
        if isinstance(event, WireNodeStarted) and self._open[event.component_id] > 0:
            self._open[event.component_id] -= 1
            return ()
        if isinstance(event, AgentRecord) or not self._is_repeating:
            return (event,)
        return self._skip_repetition(event)

    def _skip_repetition(self, event: StreamEvent) -> Iterable[StreamEvent]:
        """Drop the part of a Message's text that has already been sent."""
        if isinstance(event, MessageEnd | MessageReset):  # a reset says itself what has been sent
            self._is_repeating = False
            return (event,)
        if not isinstance(event, Message):
            return (event,)
        text = self._visible_text(event)
        if not text:
            return ()  # thinking is not sent again
        if self._unrepeated.startswith(text):
            self._unrepeated = self._unrepeated[len(text) :]
            self._repeated_text += text
            self._is_repeating = bool(self._unrepeated)
            return ()
        self._is_repeating = False
        if text.startswith(self._unrepeated):
            return (Message(text[len(self._unrepeated) :]),)
        return (MessageEnd(), Message(self._repeated_text + text))


class TurnPlayer(Protocol):
    """The object that starts turns in this process: `ragflow_lg.server.runs.turns.Turns`."""

    async def runner(self, agent: AgentRow, session: SessionRow) -> Runner:
        """Return the runner for a session's turns."""
        ...

    async def start_run(
        self, run: ContinuedRun, tenant: str, question: str | None, start_ms: int, *, previous: str
    ) -> None:
        """Start a run that is stored in the database. ``previous`` is the run manager that has stopped."""
        ...


class Failover:
    """Takes over interrupted runs, each only once, no matter how many followers it has here and elsewhere."""

    def __init__(self, app_state: AppState, turns: TurnPlayer) -> None:
        self._app_state = app_state
        self._turns = turns
        self._taking: dict[str, asyncio.Task[bool]] = {}

    async def take(self, run_id: str) -> bool:
        """Continue a run. Return whether it is continued, here or elsewhere."""
        if self._app_state.run_manager.is_draining:
            return False
        if (taking := self._taking.get(run_id)) is None:
            taking = self._taking[run_id] = asyncio.create_task(self._take(run_id))
            taking.add_done_callback(lambda _: self._taking.pop(run_id, None))
        return await asyncio.shield(taking)

    async def _take(self, run_id: str) -> bool:
        try:
            return await self._continue(run_id)
        except RagflowLgError as error:
            logger.warning("run %s was interrupted and cannot be continued here: %s", run_id, error)
            return False

    async def _continue(self, run_id: str) -> bool:
        app_state, head = self._app_state, await self._app_state.run_manager.head(run_id)
        row = await RunRepository(app_state.database, head.owner).get(run_id)
        if row is None:
            return False
        session = await SessionRepository(app_state.database, head.owner).get(row.session_id)
        agent = await AgentRepository(app_state.database, head.owner).get(row.agent_id)
        if session is None or agent is None or not await self._is_free(session.id):
            return False
        replay_filter = ReplayFilter(await self._read_events(run_id))
        runner = await self._turns.runner(agent, session)
        state = await runner.state(session.id)
        if await runner.pauses(session.id):
            run = runner.start(session.id, {}, head.envelope)  # sends the form again
        else:
            run = runner.continue_(session.id, head.envelope)
        try:
            continued = ContinuedRun(run, replay_filter, state)
            await self._turns.start_run(continued, head.owner, row.asked or None, row.start_ms, previous=head.player)
        except StreamError:
            # Another process may have claimed it first.
            return (await app_state.run_manager.head(run_id)).player != head.player
        logger.info("run %s was interrupted and continues here", run_id)
        return True

    async def _read_events(self, run_id: str) -> list[StreamEvent]:
        try:
            return await self._app_state.run_manager.events_so_far(run_id)
        except StreamGapError:
            return []

    async def _is_free(self, session_id: str) -> bool:
        """Wait until the session is free. Return False if it is still held after `FREE_S`."""
        until = time.monotonic() + FREE_S
        while await self._app_state.store.leases.holder(session_id):
            if time.monotonic() > until:
                return False
            await asyncio.sleep(PAUSE_S)
        return True


class ContinuedRun:
    """The continuation of a run, for followers that already know its beginning."""

    def __init__(self, run: Run, replay_filter: ReplayFilter, state: dict[str, Any]) -> None:
        self._run = run
        self._filter = replay_filter
        self._state = state
        self._is_complete = False

    @property
    def envelope(self) -> Envelope:
        """The fields shared by all of the run's frames."""
        return self._run.envelope

    @property
    def status(self) -> str:
        """The run's status."""
        return "succeeded" if self._is_complete else self._run.status

    @property
    def answer(self) -> str:
        """The text of all messages, from the beginning of the turn."""
        return self._filter.ended_text + self._run.answer

    @property
    def error(self) -> str | None:
        """The error that stopped the turn, or None."""
        return None if self._is_complete else self._run.error

    @property
    def usage(self) -> Usage:
        """Model usage since the interruption."""
        return self._run.usage

    @property
    def lease_token(self) -> int:
        """The continuation's lease token."""
        return self._run.lease_token

    def cancel(self) -> None:
        """Stop the turn."""
        self._run.cancel()

    def drain(self) -> None:
        """Stop at a point where the turn can be continued elsewhere."""
        self._run.drain()

    async def with_records(self) -> AsyncGenerator[StreamEvent]:
        """Run the rest of the turn and yield only events that followers have not received yet."""
        replay_filter, turn = self._filter, self._state.get("turn", {})
        if replay_filter.has_begun:
            for event in replay_filter.finish(self._state.get("outputs", {})):
                yield event
        try:
            async with aclosing(cast("AsyncGenerator[StreamEvent]", self._run.with_records())) as events:
                async for event in events:
                    for new_event in replay_filter.feed(event):
                        yield new_event
        except ConflictError as error:
            if not replay_filter.has_begun or turn.get("status") != "succeeded":
                raise CheckpointError(f"The run was interrupted and cannot be continued: {error}") from error
            self._is_complete = True  # all work was done, but not all events were sent
            history: list[Any] = self._state.get("history") or [["assistant", {}]]
            yield WorkflowFinished(turn.get("inputs") or {}, history[-1][1], 0.0, float(self.envelope.created_at))
