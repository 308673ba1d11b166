"""What is played of a run: all of it, what another process has left, or only its end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from ragflow_lg.base.errors import CheckpointError, ConflictError, StreamAbandonedError
from ragflow_lg.component.events import TurnFinished
from ragflow_lg.engine.turn import stored_end
from ragflow_lg.runs.progress import Progress
from ragflow_lg.runs.wire.message_order import MessageOrder
from ragflow_lg.runs.wire.wire_events import AnswerText, Envelope, WireEvent
from ragflow_lg.server.runs.replay_filter import ReplayFilter
from ragflow_lg.server.streaming.new_run import NewRun
from ragflow_lg.services.chat import Usage

if TYPE_CHECKING:
    from ragflow_lg.component.state import TurnRequest
    from ragflow_lg.runs.run import Run
    from ragflow_lg.runs.runner import Runner
    from ragflow_lg.server.streaming.event_codec import StreamEvent

NEVER_BEGAN = "The server stopped before it had stored the request: nothing has run. Start the run again."


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

    async def batches(self, *, publishes: bool = False) -> AsyncGenerator[list[StreamEvent]]:
        """Raise the error that followers receive, if any."""
        if self.error:
            raise StreamAbandonedError(self.error)
        return
        yield  # makes this a generator


class Continuation:
    """The continuation of a run, for followers that already know its beginning."""

    def __init__(
        self,
        run: Run,
        progress: Progress,
        read: Callable[[], Awaitable[Sequence[StreamEvent]]],
        *,
        is_restart: bool = False,
    ) -> None:
        """``read`` returns what followers have received; see `ReplayFilter` for ``is_restart``."""
        self._run = run
        self._progress = progress
        self._read = read
        self._is_restart = is_restart
        self._filter = ReplayFilter([], progress.plan, is_restart=is_restart)

    async def open(self) -> None:
        """Find out what followers have received. From now on, the process before cannot send anything."""
        self._filter = ReplayFilter(await self._read(), self._progress.plan, is_restart=self._is_restart)
        self._run.restored_events = self._filter.missing_events(self._progress)

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
