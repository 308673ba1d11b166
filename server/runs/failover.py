"""Continues runs whose process has stopped, for the followers they still have."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from msgspec.structs import replace

from ragflow_lg.base.errors import (
    CheckpointError,
    ConflictError,
    RagflowLgError,
    StreamAbandonedError,
    StreamError,
)
from ragflow_lg.checkpoints.records.lease_owner import parse_owner
from ragflow_lg.component.events import AgentRecord, TurnFinished
from ragflow_lg.engine.turn import stored_end
from ragflow_lg.runs.progress import Progress
from ragflow_lg.runs.wire.answer_text import AnswerText
from ragflow_lg.runs.wire.message_order import MessageOrder
from ragflow_lg.runs.wire.wire_events import Envelope, UserInputs, WireEvent, WorkflowFinished
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository
from ragflow_lg.server.runs.replay_filter import ReplayFilter
from ragflow_lg.server.streaming.new_run import NewRun
from ragflow_lg.services.chat import Usage
from ragflow_lg.services.sessions import hold_lease

if TYPE_CHECKING:
    from ragflow_lg.component.state import TurnRequest
    from ragflow_lg.runs.run import Run
    from ragflow_lg.runs.runner import Runner
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import AgentRow, RunRow, SessionRow, VersionRow
    from ragflow_lg.server.streaming.event_codec import StreamEvent
    from ragflow_lg.server.streaming.journal import RunHead
    from ragflow_lg.server.streaming.run_task import Publish

NEVER_BEGAN = "The server stopped before it had stored the request: nothing has run. Start the run again."
FREE_S = 60.0
"""How long to wait for a stopped process's session; longer than its lease."""

PAUSES_S = (0.01, 0.02, 0.05, 0.1, 0.2)
"""How long to wait between looks at a session's lease, the last one repeatedly."""

logger = logging.getLogger(__name__)


class TurnPlayer(Protocol):
    """The object that starts turns in this process: `ragflow_lg.server.runs.turns.Turns`."""

    async def runner(
        self, agent: AgentRow, session: SessionRow, version: VersionRow | None = None, *, is_page: bool = False
    ) -> Runner:
        """Return the runner for a session's turns."""
        ...

    async def start_run(
        self,
        run: Run | EndedRun,
        new: NewRun,
        *,
        previous: str,
        takeovers: int,
        replay: Continuation | None,
    ) -> None:
        """Start a run that is stored in the database. ``previous`` is the run manager that has stopped."""
        ...


class Failover:
    """Takes over interrupted runs, each only once, no matter how many followers it has here and elsewhere.

    A run whose processes die again and again is not continued: it may be the cause.
    """

    def __init__(self, app_state: AppState, turns: TurnPlayer) -> None:
        self._app_state = app_state
        self._turns = turns
        self._taking: dict[str, asyncio.Task[bool]] = {}

    async def take(self, run_id: str, order: NewRun | None = None) -> bool:
        """Continue a run. Return whether it is continued, here or elsewhere.

        With its ``order`` from the queue, a run of which nothing is stored begins again.
        """
        if self._app_state.run_manager.is_draining:
            return False
        if (taking := self._taking.get(run_id)) is None:
            taking = self._taking[run_id] = asyncio.create_task(self._take(run_id, order))
            taking.add_done_callback(lambda _: self._taking.pop(run_id, None))
        return await asyncio.shield(taking)

    async def _take(self, run_id: str, order: NewRun | None) -> bool:
        try:
            return await self._continue(run_id, order)
        except RagflowLgError as error:
            logger.warning("run %s was interrupted and cannot be continued here: %s", run_id, error)
            return False

    async def _continue(self, run_id: str, order: NewRun | None) -> bool:
        app_state, run_manager = self._app_state, self._app_state.run_manager
        head = await run_manager.head(run_id)
        row = await RunRepository(app_state.database, head.owner).get(run_id)
        if row is None:
            return False
        session = await SessionRepository(app_state.database, head.owner).get(row.session_id)
        agent = await AgentRepository(app_state.database, head.owner).get(row.agent_id)
        if session is None or agent is None:
            return False
        if await run_manager.is_played(run_id):
            return True  # it was only slow to report
        if not await run_manager.is_alive(head.player):
            await app_state.store.leases.expire(session.id, head.process)
        has_died = await self._has_died(head)
        if has_died and await self._is_over(row):
            error = row.error if row.status == "refused" else ""
            return await self._end(EndedRun(head.envelope, row.status, error), head, row)
        takeovers = head.takeovers + has_died
        if takeovers > app_state.settings.limits.takeovers:
            return await self._abandon(head, row, takeovers)
        if not await self._is_free(session.id):
            return False
        record = await app_state.store.runs.get(run_id)  # stored with the first step
        has_leased = record is not None or await run_manager.has_events(run_id)
        if has_leased and await app_state.store.cancels.is_requested(session.id):
            return await self._end(EndedRun(head.envelope, "cancelled", ""), head, row)
        if record is None and order is None:  # nobody knows its request any more
            return await self._end(EndedRun(head.envelope, "refused", NEVER_BEGAN), head, row)
        runner = await self._turns.runner(agent, session, is_page=bool(row.page_key))
        run, progress = await _open_run(runner, head.envelope, None if record is not None else order)
        replay_filter = ReplayFilter(await run_manager.events_so_far(run_id), progress.plan)
        is_started = await self._start(run, head, row, takeovers, Continuation(run, replay_filter, progress))
        if is_started and has_died:
            owner, silence_s = parse_owner(head.process), run_manager.silence_s
            player = owner.label if owner is not None else "its process"
            logger.warning("run %s goes on here: %s has not reported for %g s or longer", run_id, player, silence_s)
        elif is_started:
            logger.info("run %s was interrupted and continues here", run_id)
        return is_started or (await run_manager.head(run_id)).player != head.player

    async def _is_over(self, row: RunRow) -> bool:
        """Return whether the end of a run is stored, and its followers lack nothing but the end of its stream."""
        if row.status in ("running", "drained"):
            return False
        if row.status in ("cancelled", "refused"):
            return True
        events = await self._app_state.run_manager.events_so_far(row.id)
        return bool(events) and isinstance(events[-1], WorkflowFinished | UserInputs)

    async def _end(self, run: EndedRun, head: RunHead, row: RunRow) -> bool:
        """End a run here. Return whether its followers learn this, from here or from elsewhere."""
        is_started = await self._start(run, head, row, head.takeovers)
        return is_started or (await self._app_state.run_manager.head(head.run_id)).player != head.player

    async def _has_died(self, head: RunHead) -> bool:
        """Return whether a run's process has died. One that stops in order writes an end."""
        end = await self._app_state.run_manager.read_end(head.run_id)
        return end is None or end.player != head.player

    async def _abandon(self, head: RunHead, row: RunRow, deaths: int) -> bool:
        """End a run as failed. Return whether its followers learn this, from here or from elsewhere."""
        answer = AnswerText()
        for event in await self._app_state.run_manager.events_so_far(head.run_id):
            if not isinstance(event, AgentRecord):
                answer.feed(event)
        # The lease is later than that of the process, which may only be stuck, so that it cannot write any more.
        async with hold_lease(self._app_state.store.leases, row.session_id) as token:
            error = (
                f"The run was not continued, because {deaths} servers died while they executed it. "
                "Continue the session to try again."
            )
            logger.error("run %s in session %s has failed: %s", head.run_id, row.session_id, error)
            return await self._end(EndedRun(head.envelope, "failed", error, answer, token), head, row)

    async def _start(
        self,
        run: Run | EndedRun,
        head: RunHead,
        row: RunRow,
        takeovers: int,
        replay: Continuation | None = None,
    ) -> bool:
        """Start a run here. Return False if another process has claimed it first, or the journal fails."""
        new = NewRun(
            head.envelope,
            head.owner,
            row.agent_id,
            question=row.asked or None,
            start_ms=row.start_ms,
            policy=head.policy or self._app_state.settings.server.on_disconnect,
            request_hash=head.request_hash,
        )
        try:
            await self._turns.start_run(run, new, previous=head.player, takeovers=takeovers, replay=replay)
        except StreamError:
            return False
        return True

    async def _is_free(self, session_id: str) -> bool:
        """Wait until the session is free. Return False if it is still held after `FREE_S`."""
        until = time.monotonic() + FREE_S
        pauses = iter(PAUSES_S)
        while await self._app_state.store.leases.holder(session_id):
            if time.monotonic() > until:
                return False
            await asyncio.sleep(next(pauses, PAUSES_S[-1]))
        return True


async def _open_run(runner: Runner, envelope: Envelope, new: NewRun | None) -> tuple[Run, Progress]:
    """Return a new run from its beginning, or the continuation of what is stored in the session."""
    if new is not None:
        return play_new(runner, new), Progress(runner.plan)
    progress = await runner.progress(envelope.session_id)
    return runner.take_over(envelope.session_id, envelope, progress), progress


def play_new(runner: Runner, new: NewRun) -> Run:
    """Return a run from its beginning."""
    run = runner.play(new.envelope.session_id, new.intent, cast("TurnRequest", new.request), new.envelope)
    tenant = new.tenant if new.has_tenant_record else ""
    run.record = replace(run.record, parent_run=new.parent_run, tenant=tenant)
    return run


class EndedRun:
    """The end of a run that is not continued, or never played, for its followers and the database."""

    usage = Usage()
    continued_run = ""

    def __init__(
        self, envelope: Envelope, status: str, error: str, collected: AnswerText | None = None, lease_token: int = 0
    ) -> None:
        """``collected`` is what the run has sent, and ``lease_token`` that of the lease with which it is ended."""
        self.envelope = envelope
        self.status = status
        self.error = error
        self.collected = collected or AnswerText()
        self.lease_token = lease_token

    def cancel(self) -> None:
        """Do nothing: the run ends at once."""

    def drain(self) -> None:
        """Do nothing: the run ends at once."""

    def interrupt(self) -> None:
        """Do nothing: the run ends at once."""

    async def with_records(self, publish: Publish | None = None) -> AsyncGenerator[StreamEvent]:
        """Raise the error that followers receive, if any."""
        if self.error:
            raise StreamAbandonedError(self.error)
        return
        yield  # makes this a generator


class Continuation:
    """The continuation of a run, for followers that already know its beginning."""

    def __init__(self, run: Run, replay_filter: ReplayFilter, progress: Progress) -> None:
        self._run = run
        self._filter = replay_filter
        self._progress = progress
        run.restored_events = replay_filter.missing_events(progress)

    @property
    def has_begun(self) -> bool:
        """Whether followers have received events of nodes before."""
        return self._filter.has_begun

    @property
    def answer(self) -> str:
        """The text of all messages, from the beginning of the turn."""
        return self._filter.answer

    def feed(self, event: StreamEvent) -> Sequence[StreamEvent]:
        """Return the events that followers have not received yet."""
        return self._filter.feed(event)

    def complete(self, error: ConflictError) -> Sequence[StreamEvent]:
        """Return the last events of a turn that had ended before all of its events were sent.

        Raises:
            CheckpointError: If it had not ended.
        """
        end = stored_end(self._progress.values)
        if not self._filter.has_begun or end is None:
            raise CheckpointError(f"The run was interrupted and cannot be continued: {error}") from error
        self._run.set_end(end)
        return [new_event for event in self._last_events(end) for new_event in self._filter.feed(event)]

    def _last_events(self, end: TurnFinished) -> Iterator[WireEvent]:
        """Yield the events at the end of a turn that has ended."""
        turn: Mapping[str, Any] = self._progress.values["turn"]
        message_order = MessageOrder(self._progress.plan, created_at=float(self._run.envelope.created_at))
        message_order.recall(turn.get("inputs", {}), self._run.usage)
        for event in (*self._run.restored_events, end):
            yield from message_order.feed(event)
