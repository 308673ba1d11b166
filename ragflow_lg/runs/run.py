"""A run: one execution of a turn, from its first to its last event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from ragflow_lg.base.errors import (
    CANCELLED_TEXT,
    CheckpointError,
    ConflictError,
    InputRefusedError,
    RagflowLgError,
    RunCancelled,
    RunError,
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
from ragflow_lg.engine.compiled_canvas import CompiledCanvas
from ragflow_lg.engine.turn import stored_end
from ragflow_lg.runs.callbacks import CallbackSet, RunSummary
from ragflow_lg.runs.graph_input import GraphInput, Intent, find_graph_input
from ragflow_lg.runs.pauses import open_pauses
from ragflow_lg.runs.progress import Progress, read_progress
from ragflow_lg.runs.run_observer import RunObserver
from ragflow_lg.runs.run_session import (
    EndStatus,
    acquire_lease,
    ended_record,
    is_recorded,
    needed_entries,
    step_store,
)
from ragflow_lg.runs.stored_turn import thread_config
from ragflow_lg.runs.wire.answer_text import AnswerText, message_frames
from ragflow_lg.runs.wire.message_order import MessageOrder
from ragflow_lg.runs.wire.wire_events import Envelope, MessageEnd, UserInputs, WireEvent, WorkflowFinished
from ragflow_lg.services.agent_metrics import AgentMetrics
from ragflow_lg.services.chat import Usage
from ragflow_lg.services.sessions import (
    NO_ENTRIES,
    Lease,
    RunRecord,
    SessionStore,
    Trace,
    with_lease_token,
    with_recent_entries,
)

if TYPE_CHECKING:
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.services.services import Services


class RunOptions(Struct, frozen=True):
    """What all runs of a runner have in common."""

    canvas: CompiledCanvas
    services: Services
    has_saver: bool
    store: SessionStore | None
    canvas_id: str
    model: str
    event_limit: int
    callbacks: CallbackSet
    busy_s: float
    running: set[Run]
    """The runs that are being iterated."""


class Run:
    """One turn. Iterate over it once to run it and receive its wire events.

    Leaving the iteration early cancels the turn. The attributes are complete once the iteration has ended.
    """

    def __init__(
        self,
        options: RunOptions,
        session: SessionId | str,
        intent: Intent,
        request: TurnRequest,
        envelope: Envelope | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Create a run. The ``envelope`` is given if another process has ordered it.

        See `Runner.take_over` for the ``progress`` of an interrupted one.
        """
        canvas, services, store = options.canvas, options.services, options.store
        self._options = options
        self._progress = progress
        self._canvas = canvas
        self._services = services
        self._intent: Intent = intent
        self._request = request
        entries = needed_entries(canvas.plan, replaces_message=bool(request.get("message_id")))
        self._config = with_recent_entries(thread_config(canvas, session), entries)
        self._store = store
        self._sink = EventSink(options.event_limit)
        self._turn = TurnContext(services, self._sink, step_store(canvas, self._config))
        self._control: Any = None
        self._is_draining = False
        self._began_s = 0.0
        self.collected = AnswerText()
        """The text and the sources that the events so far contain, and the form that the turn waits at."""
        self._has_lost_lease = self._has_started = False
        self._lease: Lease | None = None
        self._ended: RunRecord | None = None
        session_id = session_of_thread(thread_of_session(session))
        now = services.clock.now()
        self._is_taken_over = progress is not None
        self.envelope = envelope or Envelope(services.ids.run_id(), int(now), session_id, session_id)
        now_ms, name, hash_ = int(now * 1000), str(session), canvas.plan.canvas_hash
        record = RunRecord(self.envelope.message_id, session_id, name, options.canvas_id, hash_, model=options.model)
        self.record = replace(record, started_ms=now_ms, updated_ms=now_ms)
        self._observer = RunObserver(canvas.plan, options.callbacks, self.record, store)
        self.status: EndStatus = "running"
        self.error: str | None = None
        """The error that stopped the turn, if any."""
        self.usage = Usage()
        """The total token usage."""
        self.failed_node = ""
        """The id of the node whose error stopped the turn, or ``""``."""
        self.restored_events: Sequence[EngineEvent] = ()
        """Events of stored node executions, which the run reports before its own."""
        self.lease_token = 0
        """The session lease's token, larger than all earlier tokens; 0 without a lease."""

    @property
    def has_started(self) -> bool:
        """Whether the turn could start: the session was free and the request was valid."""
        return self._has_started

    @property
    def intent(self) -> Intent:
        """What the run does with its session."""
        return self._intent

    @property
    def request(self) -> TurnRequest:
        """What the user sent."""
        return self._request

    @property
    def continued_run(self) -> str:
        """The id of the interrupted run whose usage is included, or ``""``."""
        if self._is_taken_over:
            return self.record.run_id
        return self.record.parent_run if self._intent == "continue" else ""

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

    @property
    def plan(self) -> Plan:
        """The canvas that runs."""
        return self._canvas.plan

    @property
    def services(self) -> Services:
        """The services of the run."""
        return self._services

    def cancel(self) -> None:
        """Cancel the turn: running nodes stop at once, and the iteration ends soon after."""
        self._turn.is_stopping = False
        self._turn.cancel()

    def hold(self, until: asyncio.Future[None]) -> None:
        """Wait before the nodes, if they have not begun, until the future is done or the run is cancelled."""
        self._turn.held = until

    def drain(self) -> None:
        """Stop at the end of the current superstep, so that the turn can continue elsewhere."""
        self._is_draining = True
        if self._control is not None:
            self._control.request_drain()

    def interrupt(self) -> None:
        """Stop without waiting for models, so that the turn can continue elsewhere, where they are called again."""
        self.drain()
        self._turn.interrupt()

    def __aiter__(self) -> AsyncIterator[WireEvent]:
        """Run the turn.

        Raises:
            ConflictError: if the session is busy, or is not waiting for this request. AnswerError: if an answer is
            invalid. InputRefusedError: if a file in the request cannot be read. RunError: if the engine or the
            checkpointer fails; component failures are reported as events.
        """
        return cast("AsyncIterator[WireEvent]", self._play(False))

    def with_records(
        self, publish: Callable[[], Awaitable[None]] | None = None
    ) -> AsyncIterator[WireEvent | AgentRecord]:
        """Run the turn as in normal iteration, and also yield agent records.

        ``publish`` waits until the events that have been yielded are published. No result of a node is stored before
        the events that led to it.
        """
        if publish is not None:

            async def publish_all() -> None:
                await self._sink.handled()
                await publish()

            self._turn.publish = publish_all
        return self._play(True)

    async def _play(self, with_records: bool) -> AsyncIterator[WireEvent | AgentRecord]:
        """Yield the events. This is a single generator, because each event would pass through every additional one."""
        self._options.running.add(self)
        self._began_s = self._services.clock.monotonic()
        inputs = self._request.get("inputs")
        message_order = MessageOrder(self._canvas.plan, created_at=float(self.envelope.created_at), inputs=inputs)
        try:
            async with _Session(self), _Playing(self, message_order) as graph:
                for frame in (frame for event in self.restored_events for frame in message_order.feed(event)):
                    self.collected.feed(frame)
                    yield frame
                if graph is None:
                    yield self._wait_for_user(message_order)
                    return
                end: TurnFinished | None = None
                while events := await self._sink.take():
                    for event in events:
                        if isinstance(event, TurnFinished):
                            end = event  # yielded after it is stored
                            continue
                        if not isinstance(event, Delta | MessagePiece):  # most events, and only the order needs them
                            self._observe(event)
                        if with_records and isinstance(event, AgentRecord):
                            yield event
                        for frame in message_order.feed(event):
                            self.collected.feed(frame)
                            yield frame
                for frame in await self._finish(graph, message_order, end):
                    self.collected.feed(frame)
                    yield frame
                self._raise_refusal()
        except RagflowLgError as error:
            self._fail(error)
            raise
        finally:
            self._options.running.discard(self)
            if self.status == "running":
                self.status = "cancelled"
            elapsed_s = self._elapsed_s()
            await self._observer.end(RunSummary(self.status, self.error, elapsed_s, self.usage, self.agents))

    def _raise_refusal(self) -> None:
        if self._intent == "start" and self.status == "failed" and not self.failed_node:
            raise InputRefusedError(self.error or "")  # no event has reported it

    def _elapsed_s(self) -> float:
        return self._services.clock.monotonic() - self._began_s

    async def open_session(self) -> AbstractAsyncContextManager[None] | None:
        """Acquire the session, if there is a store. Return the block that watches for cancellation, which has begun."""
        store = self._store
        if store is None:
            return None
        lease = self._lease = await acquire_lease(
            store.leases, self.record.session, self._on_lease_lost, self._services.clock, self._options.busy_s
        )
        try:
            self.lease_token = lease.token
            self._config = with_lease_token(self._config, lease.token)
            self._turn.steps = step_store(self._canvas, self._config)
            self._turn.gathered = store.gather(self._config)
            watch = store.cancels.watch(self.record.session, self.cancel)
            await watch.__aenter__()
        except BaseException:
            await self._leave(store, has_failed=True)
            raise
        return watch

    async def close_session(self, watch: AbstractAsyncContextManager[None], error: BaseException | None) -> None:
        """Store the last steps and the record of the run, which ``error`` has ended if any, and release the session."""
        store = self._store
        if store is None:
            return
        has_failed = True
        try:
            try:
                await self._close(store, error)
            finally:
                await watch.__aexit__(None, None, None)
            has_failed = error is not None
        finally:
            await self._leave(store, has_failed=has_failed)

    async def _close(self, store: SessionStore, error: BaseException | None) -> None:
        """Store the last steps, and find out what is recorded of the end. Report only the first error."""
        if error is None:
            try:
                await self._close_steps()
            except BaseException as failure:
                await self._close(store, failure)
                raise
            await self._end_record(store)
            return
        if isinstance(error, RagflowLgError):
            self._fail(error)
        with suppress(CheckpointError):
            await self._close_steps()
        with suppress(CheckpointError):
            await self._end_record(store)

    async def _leave(self, store: SessionStore, *, has_failed: bool) -> None:
        """Store the record, unless the run has not begun, and release the session. Report only the first error."""
        lease = self._lease
        if lease is None:
            return
        with suppress(CheckpointError) if has_failed else nullcontext():
            async with store.together():
                if self._ended is not None:
                    await store.runs.put(self._ended)
                await lease.release()

    async def _close_steps(self) -> None:
        if self._turn.gathered is not None and self._lease is not None:
            await self._turn.gathered.close()

    def _fail(self, error: RagflowLgError) -> None:
        if self.status == "running":
            self.status, self.error = "failed", str(error)

    async def _store_success(self, end: TurnFinished) -> None:
        """Store the end of a turn with its last steps, and release the session, in one transaction if possible."""
        store, lease, gathered = self._store, self._lease, self._turn.gathered
        if store is None or lease is None or gathered is None:
            return
        ended = await self._ended_record(store, end.status, end.error)
        works = await self._observer.last_works()
        try:
            await gathered.close([*works, partial(store.runs.put, ended), lease.release])
        except CheckpointError:
            if not await is_recorded(store.runs, ended):
                raise
        self._lease = None

    async def _ended_record(self, store: SessionStore, status: EndStatus, error: str | None) -> RunRecord:
        checkpoint, now_ms = await store.newest_checkpoint(self._config), int(self._services.clock.now() * 1000)
        return ended_record(self.record, status, error, checkpoint, now_ms)

    async def _end_record(self, store: SessionStore) -> None:
        """Find out what is recorded of the end, if it has not been recorded yet."""
        lease = self._lease
        if lease is None:
            return
        # A suspended process notices a lost lease late.
        is_stored = self.status in _DURABLE_STATUSES and not self._turn.is_stopping
        if not is_stored and not await lease.is_ours():
            self._has_lost_lease = True
        await self._observer.flush_trace(is_lost=self._has_lost_lease)
        if self._has_started and not self._has_lost_lease:
            self._ended = await self._ended_record(store, self.status, self.error)

    def _on_lease_lost(self) -> None:
        """Stop without further writes: another runner has taken over the session."""
        self._has_lost_lease = True
        self._turn.cancel()

    async def start_graph(self, message_order: MessageOrder) -> asyncio.Task[None] | None:
        """Run the graph in its own task. Return None if the user must be asked again first."""
        from langgraph.runtime import RunControl

        from ragflow_lg.engine.graph_run import play

        if self._options.has_saver and (self._is_taken_over or self._intent == "continue"):
            await self._recall(message_order)
        found = await self._graph_input()
        if found.unanswered:
            for pause in found.unanswered:
                message_order.wait(pause.node, pause.tips, pause.inputs)
            return None
        self._has_started = True
        self._observer.begin(self.record, self._intent, self._services.clock.now())
        if self._store is not None and self._turn.gathered is not None:
            self._turn.gathered.attach(partial(self._store.runs.put, self.record))
        elif self._store is not None:
            await self._store.runs.put(self.record)
        self._control = RunControl()
        if self._is_draining:
            self._control.request_drain()
        playing = play(
            self._canvas.graph,
            found.value,
            self._config,
            context=self._turn,
            control=self._control,
            durability="sync" if self._options.has_saver else None,
        )
        graph = asyncio.create_task(playing)
        graph.add_done_callback(self._close_sink)
        return graph

    def _close_sink(self, _: object) -> None:
        self._sink.close()

    async def stop_graph(self, graph: asyncio.Task[None] | None, error: BaseException | None) -> None:
        """Cancel the graph if it is still running.

        Raises:
            RunError: if ``error`` is one of the engine.
        """
        engine_error = error if isinstance(error, Exception) and not isinstance(error, RagflowLgError) else None
        if engine_error is not None:
            self.status, self.error = "failed", _describe_error(engine_error)
        self._sink.close()
        if graph is not None and not graph.done():
            graph.cancel()
            await asyncio.gather(graph, return_exceptions=True)
        self._turn.limits.close()
        if engine_error is not None:
            raise RunError(self.error or "") from engine_error

    async def _recall(self, message_order: MessageOrder) -> None:
        """Continue with the inputs and the usage of the interrupted run."""
        progress = self._progress or await read_progress(self._canvas, self._config)
        self.usage = progress.run_usage
        message_order.recall(progress.values.get("turn", {}).get("inputs", {}), self.usage)

    async def _graph_input(self) -> GraphInput:
        if self._options.has_saver:
            is_unrecorded = self._intent == "continue" and not self._is_taken_over and await self._is_unrecorded()
            return await find_graph_input(
                self._canvas, self._config, self._turn, self._intent, self._request, is_unrecorded=is_unrecorded
            )
        if self._intent != "start":
            raise ConflictError("The session is not waiting: without a session store, turns are independent.")
        return GraphInput({"query": "", **self._request})

    async def _is_unrecorded(self) -> bool:
        """Return whether the process of the last run has stored steps of it, but died before it recorded its end."""
        if self._store is None:
            return False
        is_newest, newest_step = True, await self._store.newest_checkpoint(self._config)
        async for record in self._store.runs.of_session(self.record.session):
            if is_newest and record.status != "running":
                return False
            if record.checkpoint:
                return record.checkpoint != newest_step
            is_newest = False
        return not is_newest

    async def _finish(
        self, graph: asyncio.Task[None], message_order: MessageOrder, end: TurnFinished | None
    ) -> list[WireEvent]:
        """Return the last frames, once everything is stored. ``end`` is the closing node's event, if it ran."""
        from langgraph.errors import GraphDrained

        try:
            await graph
            if self._turn.gathered is not None and (end is None or end.status != "succeeded"):
                await self._turn.gathered.settle()
        except RunCancelled:
            if self._has_lost_lease:
                raise SessionBusyError(
                    "Another runner has taken over this session, or its store is unavailable. This run has stopped."
                ) from None
            if self._turn.is_stopping:
                self.status = "drained"
                return []
            end = TurnFinished("cancelled", {}, CANCELLED_TEXT)
        except GraphDrained:
            if end is None:
                self.status = "drained"
                return []
        if end is None and self.status == "running" and not message_order.waiting:
            return await self._repeat_end(message_order)
        if end is not None:
            return await self._complete(end, message_order)
        if self.status == "running" and message_order.waiting:
            if self._options.has_saver and not open_pauses(await self._canvas.graph.aget_state(self._config)):
                raise CheckpointError("The session store has lost this pause. Continue the session to be asked again.")
            return [self._wait_for_user(message_order)]
        return []

    async def _repeat_end(self, message_order: MessageOrder) -> list[WireEvent]:
        """Return the answer and the end of a turn whose closing node ran just before its run was interrupted."""
        if not self._options.has_saver:
            return []
        config = with_recent_entries(self._config, {**NO_ENTRIES, "history": 1})
        end = stored_end((await self._canvas.graph.aget_state(config)).values)
        if end is None:
            return []
        frames: list[WireEvent] = []
        if not (self._is_taken_over or self.collected.text) and "content" in end.outputs:
            frames += [*message_frames(to_text(end.outputs["content"])), MessageEnd()]
        return [*frames, *await self._complete(end, message_order)]

    async def _complete(self, end: TurnFinished, message_order: MessageOrder) -> list[WireEvent]:
        if end.status == "succeeded":
            await self._store_success(end)
        return self._end(end, message_order)

    def _wait_for_user(self, message_order: MessageOrder) -> UserInputs:
        self.status = "waiting"
        return message_order.user_inputs()

    def _end(self, event: TurnFinished, message_order: MessageOrder) -> list[WireEvent]:
        self.status, self.error = event.status, event.error
        frames = list(message_order.feed(event))
        for frame in frames:
            if isinstance(frame, WorkflowFinished):
                frame.elapsed_time = self._elapsed_s()
        if event.failed_node and not self.failed_node and not self._is_taken_over:
            # It failed in an earlier run, next to an open form or before a crash.
            self.failed_node = event.failed_node
            frames += message_order.report_failure(event)
        return frames

    def _observe(self, event: EngineEvent) -> None:
        self._observer.observe(event)
        if isinstance(event, NodeFinished):
            if event.usage is not None:
                self.usage = self.usage.plus(event.usage)
            if event.is_halting:
                self.failed_node, self.error = event.node, event.error


class _Session(AbstractAsyncContextManager[None]):
    """A block that holds the session of a run, if it has a store. It takes less memory than a generator."""

    __slots__ = ("_run", "_watch")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._watch: AbstractAsyncContextManager[None] | None = None

    async def __aenter__(self) -> None:
        self._watch = await self._run.open_session()

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self._watch is not None:
            await self._run.close_session(self._watch, error)


class _Playing(AbstractAsyncContextManager["asyncio.Task[None] | None"]):
    """A block in which the graph of a run runs; see `Run.start_graph`."""

    __slots__ = ("_graph", "_message_order", "_run")

    def __init__(self, run: Run, message_order: MessageOrder) -> None:
        self._run = run
        self._message_order = message_order
        self._graph: asyncio.Task[None] | None = None

    async def __aenter__(self) -> asyncio.Task[None] | None:
        self._graph = await self._run.start_graph(self._message_order)
        return self._graph

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await self._run.stop_graph(self._graph, error)


_DURABLE_STATUSES = ("succeeded", "waiting", "drained")
"""Statuses whose last checkpoint was stored, which proves that the lease was current."""


def _describe_error(error: Exception) -> str:
    from langgraph.errors import GraphRecursionError

    if isinstance(error, GraphRecursionError):
        return "The flow repeated a cycle too often and was stopped. Check the condition that leaves the cycle."
    return f"{type(error).__name__}: {error}"
