"""A run: one execution of a turn, from its first to its last event."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import aclosing
from typing import cast

from ragflow_lg.base.errors import (
    CANCELLED_TEXT,
    CheckpointError,
    InputRefusedError,
    RagflowLgError,
    RunCancelled,
    SessionBusyError,
)
from ragflow_lg.base.ids import SessionId, session_of_thread, thread_of_session
from ragflow_lg.base.values import to_text
from ragflow_lg.component.events import (
    AgentRecord,
    Delta,
    EngineEvent,
    EventSink,
    MessagePiece,
    NodeFinished,
    TurnFinished,
)
from ragflow_lg.component.state import TurnRequest
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.engine.compiled_canvas import GraphTask, play
from ragflow_lg.runs.callbacks import RunSummary
from ragflow_lg.runs.graph_input import Intent, find_graph_input
from ragflow_lg.runs.pauses import BoundRequest, open_pauses
from ragflow_lg.runs.progress import Progress, read_progress
from ragflow_lg.runs.run_observer import CallObserver
from ragflow_lg.runs.run_session import EndStatus, HeldSession, PlayOptions, step_store
from ragflow_lg.runs.stored_turn import read_stored_end
from ragflow_lg.runs.wire.message_order import MessageOrder
from ragflow_lg.runs.wire.wire_events import (
    AnswerText,
    Envelope,
    MessageEnd,
    UserInputs,
    WireEvent,
    WorkflowFinished,
    message_frames,
)
from ragflow_lg.services.agent_metrics import AgentMetrics
from ragflow_lg.services.chat import Usage
from ragflow_lg.services.sessions import RunRecord, Trace


class Run:
    """One turn. Iterate over it once to run it and receive its wire events.

    Leaving the iteration early cancels the turn. The attributes are complete once the iteration has ended.
    """

    def __init__(
        self,
        options: PlayOptions,
        session: SessionId | str,
        intent: Intent,
        request: TurnRequest,
        envelope: Envelope | None = None,
        progress: Progress | None = None,
        *,
        ignores_unknown: bool = False,
    ) -> None:
        """Create a run. The ``envelope`` is given if another process has ordered it.

        See `Runner.take_over` for the ``progress`` of an interrupted one.
        """
        canvas, services = options.canvas, options.services
        self._options = options
        self._progress = progress
        self.plan = canvas.plan
        """The canvas that runs."""
        self.services = services
        self.intent: Intent = intent
        """What the run does with its session."""
        self.request = request
        """What the user sent."""
        self._ignores_unknown = ignores_unknown
        self._is_taken_over = progress is not None
        self._began_s = 0.0
        self.elapsed_s = 0.0
        """How long the run took."""
        session_id = session_of_thread(thread_of_session(session))
        now = services.clock.now()
        self.envelope = envelope or Envelope(services.ids.run_id(), int(now), session_id, session_id)
        now_ms = int(now * 1000)
        self.record = RunRecord(
            self.envelope.message_id,
            session_id,
            str(session),
            options.canvas_id,
            canvas.plan.canvas_hash,
            started_ms=now_ms,
            updated_ms=now_ms,
            model=options.model,
        )
        config = canvas.thread_config(session)
        self._sink = EventSink(options.event_limit)
        joins_nodes = options.store is None or options.store.durability == "effects"
        self._turn = TurnContext(services, self._sink, step_store(canvas, config), joins_nodes=joins_nodes)
        self._observer = CallObserver(canvas.plan, options.callbacks, self.record, options.store)
        self._session = HeldSession(options, session_id, self.record.run_id, config, self._turn, self._observer)
        self._graph = GraphTask(self._sink)
        self.collected = AnswerText()
        """The text and the sources that the events so far contain, and the form that the turn waits at."""
        self.usage = Usage()
        """The total token usage."""
        self.failed_node = ""
        """The id of the node whose error stopped the turn, or ``""``."""
        self.restored_events: Sequence[EngineEvent] = ()
        """Events of stored node executions, which the run reports before its own."""

    @property
    def has_started(self) -> bool:
        """Whether the turn could start: the session was free and the request was valid."""
        return self._session.record is not None

    @property
    def status(self) -> EndStatus:
        """The status, which is ``running`` until the iteration has ended."""
        return self._session.status

    @property
    def error(self) -> str | None:
        """The error that stopped the turn, if any."""
        return self._session.error

    @property
    def lease_token(self) -> int:
        """The session lease's token, larger than all earlier tokens; 0 without a lease."""
        return self._session.lease_token

    @property
    def continued_run(self) -> str:
        """The id of the interrupted run whose usage is included, or ``""``."""
        if self._is_taken_over:
            return self.record.run_id
        return self.record.parent_run if self.intent == "continue" else ""

    @property
    def answer(self) -> str:
        """The text of all messages so far, without thinking."""
        return self.collected.text

    @property
    def agents(self) -> AgentMetrics:
        """The combined metrics of the run's agents so far; ``visits`` is 0 if no agent has run."""
        return self._observer.agents

    @property
    def trace(self) -> Trace:
        """The tool calls made by the run's agents so far, in RAGFlow's format."""
        return self._observer.trace.blocks

    def cancel(self) -> None:
        """Cancel the turn: running nodes stop at once, and the iteration ends soon after."""
        self._turn.cancel()

    def drain(self) -> None:
        """Stop at the end of the current superstep, so that the turn can continue elsewhere."""
        self._graph.control.request_drain()

    def interrupt(self) -> None:
        """Stop without waiting for models, so that the turn can continue elsewhere, where they are called again."""
        self.drain()
        self._turn.interrupt()

    def set_end(self, end: TurnFinished) -> None:
        """Set the status and the error from the end of the turn, which an earlier run may have reached."""
        self._session.status, self._session.error = end.status, end.error

    def __aiter__(self) -> AsyncIterator[WireEvent]:
        """Run the turn.

        Raises:
            ConflictError: if the session is busy, or is not waiting for this request. AnswerError: if an answer is
            invalid. InputRefusedError: if a file in the request cannot be read. RunError: if the engine or the
            checkpointer fails; component failures are reported as events.
        """
        return cast("AsyncIterator[WireEvent]", _each(self._play(False)))

    def with_records(self, *, publishes: bool = False) -> AsyncGenerator[WireEvent | AgentRecord]:
        """Run the turn as in normal iteration, and also yield agent records; see `batches`."""
        return _each(self.batches(publishes=publishes))

    def batches(self, *, publishes: bool = False) -> AsyncGenerator[list[WireEvent | AgentRecord]]:
        """Run the turn and yield its events and agent records, those together that are there.

        If the caller ``publishes`` each batch before it asks for the next one, no result of a node is stored before the
        events that led to it.
        """
        if publishes:
            self._turn.publish = self._sink.handled
        return self._play(True)

    async def _play(self, with_records: bool) -> AsyncGenerator[list[WireEvent | AgentRecord]]:
        self._options.running.add(self._graph.control)
        self._began_s = self.services.clock.monotonic()
        inputs = self.request.get("inputs")
        message_order = MessageOrder(self.plan, created_at=float(self.envelope.created_at), inputs=inputs)
        message_order.hides_questions = not self._options.answers_questions
        try:
            async with self._session, self._graph:
                await self._start(message_order)
                yield self._collect(frame for event in self.restored_events for frame in message_order.feed(event))
                if not self.has_started:
                    yield [self._wait_for_user(message_order)]
                    return
                end: TurnFinished | None = None
                while events := await self._sink.take():
                    batch: list[WireEvent | AgentRecord] = []
                    for event in events:
                        if isinstance(event, TurnFinished):
                            end = event  # yielded after it is stored
                            continue
                        if not isinstance(event, Delta | MessagePiece):  # most events, and only the order needs them
                            self._observe(event)
                        if with_records and isinstance(event, AgentRecord):
                            batch.append(event)
                        batch += self._collect(message_order.feed(event))
                    yield batch
                yield self._collect(await self._finish(message_order, end))
                if self.status == "failed" and not self.failed_node:
                    raise InputRefusedError(self.error or "")  # no event has reported it
        except RagflowLgError as error:
            self._session.fail(error)
            raise
        finally:
            self._options.running.discard(self._graph.control)
            if self.status == "running":
                self._session.status = "cancelled"
            self.elapsed_s = self.services.clock.monotonic() - self._began_s
            await self._observer.end(RunSummary(self.status, self.error, self.elapsed_s, self.usage, self.agents))

    def _collect(self, events: Iterable[WireEvent]) -> list[WireEvent | AgentRecord]:
        """Return events that are about to be yielded."""
        batch: list[WireEvent | AgentRecord] = []
        for event in events:
            self.collected.feed(event)
            batch.append(event)
        return batch

    async def _start(self, message_order: MessageOrder) -> None:
        """Start the graph, unless the user must be asked again first."""
        canvas, session = self._options.canvas, self._session
        if after := cast("BoundRequest", self.request).get("after"):
            await session.require_newest(after)
        is_continued = self._is_taken_over or self.intent == "continue"
        if canvas.has_saver and is_continued:  # with the inputs and the usage of the interrupted run
            progress = self._progress or await read_progress(canvas, session.config)
            self.usage = progress.run_usage
            message_order.recall(progress.values.get("turn", {}).get("inputs", {}), self.usage)
        is_unrecorded = self.intent == "continue" and not self._is_taken_over and await session.is_unrecorded()
        found = await find_graph_input(
            canvas,
            session.config,
            self._turn,
            self.intent,
            self.request,
            name=self.record.name,
            is_unrecorded=is_unrecorded,
            ignores_unknown=self._ignores_unknown,
            answers_questions=self._options.answers_questions,
        )
        for pause in found.unanswered:
            message_order.wait(pause.node, pause.tips, pause.inputs, pause.id)
        if found.unanswered:
            return
        self._observer.begin(self.record, self.intent, self.services.clock.now())
        await session.begin(self.record)
        await found.store_changes(canvas)
        self._graph.start(
            play(
                canvas.graph,
                found.value,
                session.config,
                context=self._turn,
                control=self._graph.control,
                durability="sync" if canvas.has_saver else None,
            )
        )

    def _observe(self, event: EngineEvent) -> None:
        self._observer.observe(event)
        if isinstance(event, NodeFinished):
            if event.usage is not None:
                self.usage = self.usage.plus(event.usage)
            if event.is_halting:
                self.failed_node, self._session.error = event.node, event.error

    async def _settle(self, end: TurnFinished | None) -> TurnFinished | None:
        """Wait until the graph has ended and its steps are stored. Return the end of the turn, if it has ended.

        ``end`` is the closing node's event, if it ran.
        """
        from langgraph.errors import GraphDrained

        session, turn = self._session, self._turn
        try:
            await self._graph
        except RunCancelled:
            if session.is_lost:
                raise SessionBusyError(
                    "Another runner has taken over this session, or its store is unavailable. This run has stopped."
                ) from None
            if not turn.is_stopping:
                return TurnFinished("cancelled", {}, CANCELLED_TEXT)
            end, session.status = None, "drained"
        except GraphDrained:
            if end is None:
                session.status = "drained"
        return end

    async def _finish(self, message_order: MessageOrder, end: TurnFinished | None) -> list[WireEvent]:
        """Return the last frames, once everything is stored. ``end`` is the closing node's event, if it ran."""
        canvas, session = self._options.canvas, self._session
        end = await self._settle(end)
        if self.status == "drained":
            return []
        if end is None and message_order.waiting:
            if canvas.has_saver and not open_pauses(await canvas.graph.aget_state(session.config)):
                raise CheckpointError("The session store has lost this pause. Continue the session to be asked again.")
            return [self._wait_for_user(message_order)]
        frames: list[WireEvent] = []
        is_closed = end is None  # the closing node ran just before an earlier run was interrupted
        if end is None:
            end = await read_stored_end(canvas, session.config) if canvas.has_saver else None
            if end is None:
                return []
        is_silent = (is_closed or self.intent == "continue") and not (self._is_taken_over or self.collected.text)
        if is_silent and (text := to_text(end.outputs.get("content"))):  # an earlier run has shown it
            frames += [*message_frames(text), MessageEnd()]
        if end.status == "succeeded":
            await session.store_success(end)
        return [*frames, *self._end(end, message_order)]

    def _wait_for_user(self, message_order: MessageOrder) -> UserInputs:
        self._session.status = "waiting"
        return message_order.user_inputs()

    def _end(self, event: TurnFinished, message_order: MessageOrder) -> list[WireEvent]:
        self.set_end(event)
        frames = list(message_order.feed(event))
        for frame in frames:
            if isinstance(frame, WorkflowFinished):
                frame.elapsed_time = self.services.clock.monotonic() - self._began_s
        if event.failed_node and not self.failed_node and not self._is_taken_over:
            # It failed in an earlier run, next to an open form or before a crash.
            self.failed_node = event.failed_node
            frames += message_order.report_failure(event)
        return frames


async def _each(batches: AsyncGenerator[list[WireEvent | AgentRecord]]) -> AsyncGenerator[WireEvent | AgentRecord]:
    async with aclosing(batches):
        async for batch in batches:
            for event in batch:
                yield event
