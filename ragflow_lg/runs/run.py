"""One run: a turn of a session, from the first event to the last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from msgspec.structs import replace

from ragflow_lg.base.errors import (
    CANCELLED_TEXT,
    CanvasChangedError,
    CheckpointError,
    ConflictError,
    InputRefusedError,
    RagflowLgError,
    RunCancelled,
    RunError,
    SessionBusyError,
)
from ragflow_lg.base.ids import SessionId, session_of_thread, thread_of_session
from ragflow_lg.base.values import to_json
from ragflow_lg.component.event_sink import EventSink
from ragflow_lg.component.events import AgentRecord, EngineEvent, NodeFinished, TurnFinished
from ragflow_lg.component.state import TurnRecord, TurnRequest
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.engine.compiled_canvas import CompiledCanvas
from ragflow_lg.engine.turn import resume_turn
from ragflow_lg.runs.callbacks import RunSummary
from ragflow_lg.runs.pauses import match_answers, open_pauses, stored_answers
from ragflow_lg.runs.run_observer import CallbackSet, RunObserver
from ragflow_lg.services.agent_metrics import AgentMetrics
from ragflow_lg.services.chat import Usage
from ragflow_lg.services.sessions import Lease, RunRecord, RunStatus, SessionStore, Steps, Trace, with_lease_token
from ragflow_lg.wire.projection import Projection
from ragflow_lg.wire.wire_events import Envelope, Message, UserInputs, WireEvent, WorkflowFinished

if TYPE_CHECKING:
    from ragflow_lg.services.services import Services

__all__ = ["BUSY_POLL_S", "Intent", "Run", "session_status", "thread_config"]

Intent: TypeAlias = Literal["start", "resume", "continue"]


def session_status(snapshot: Any) -> RunStatus:
    """Give how the last turn of a session stands; ``running`` where something is left to do."""
    if open_pauses(snapshot):
        return "waiting"
    if snapshot.tasks:
        return "running"
    statuses: dict[str, RunStatus] = {"failed": "failed", "running": "cancelled"}  # given up, see `abandon`
    return statuses.get(snapshot.values.get("turn", {}).get("status"), "succeeded")


def thread_config(canvas: CompiledCanvas, session: SessionId | str) -> Any:
    """Give the LangGraph config of a session."""
    return {
        "configurable": {"thread_id": thread_of_session(session)},
        "recursion_limit": canvas.recursion_limit,
    }


class Run:
    """One turn: iterate over it once to play it and get its wire events.

    Leaving the iteration early ends the turn. The other attributes are complete once the iteration is over.
    """

    def __init__(
        self,
        canvas: CompiledCanvas,
        services: Services,
        session: SessionId | str,
        intent: Intent,
        request: TurnRequest,
        *,
        has_saver: bool,
        store: SessionStore | None,
        canvas_id: str,
        event_limit: int,
        running: set[Run],
        audience: CallbackSet,
        busy_s: float = 0.0,
        envelope: Envelope | None = None,
    ) -> None:
        """``envelope`` is that of an interrupted run under whose name this one goes on."""
        self._canvas = canvas
        self._services = services
        self._intent: Intent = intent
        self._request = request
        self._config = thread_config(canvas, session)
        self._has_saver = has_saver
        self._store = store
        self._running = running
        self._busy_s = busy_s
        self._sink = EventSink(event_limit)
        self._turn = TurnContext(services, self._sink, _steps(canvas, self._config))
        self._control: Any = None
        self._is_draining = False
        self._answer: list[str] = []
        self._is_thinking = False
        self._is_lost = False
        self._has_begun = False
        session_id = session_of_thread(thread_of_session(session))
        now = services.clock.now()
        self.envelope = envelope or Envelope(services.ids.run_id(), int(now), session_id, session_id)
        self.record = RunRecord(
            self.envelope.message_id,
            session_id,
            str(session),
            canvas_id,
            canvas.plan.canvas_hash,
            started_ms=int(now * 1000),
            updated_ms=int(now * 1000),
        )
        self._watch = RunObserver(canvas.plan, audience, self.record, store.traces if store is not None else None)
        self.status: Literal["running", "succeeded", "failed", "cancelled", "waiting", "drained"] = "running"
        """``running`` until the end; ``waiting`` for an answer, or ``drained``: stopped to go on elsewhere."""
        self.error: str | None = None
        """What stopped the turn, if anything did."""
        self.usage = Usage()
        """What the models of the turn have been asked."""
        self.failed_node = ""
        """Id of the node whose error stopped the turn."""
        self.lease_token = 0
        """The token of the session's lease that the run got: larger than all before. 0 if it has got none."""

    @property
    def answer(self) -> str:
        """The text of all messages so far, thinking left out."""
        return "".join(self._answer)

    @property
    def agents(self) -> AgentMetrics:
        """What the agents of this run have done so far, all added up; ``visits`` is 0 where there were none."""
        return self._watch.agents

    @property
    def trace(self) -> Trace:
        """What the agents of this run have called so far, in RAGFlow's form."""
        return self._watch.trace.blocks

    def cancel(self) -> None:
        """Stop the turn: running nodes end at once, the iteration ends soon after."""
        self._turn.cancel()

    def drain(self) -> None:
        """Stop at the end of the superstep that runs, so that the turn can go on elsewhere."""
        self._is_draining = True
        if self._control is not None:
            self._control.request_drain()

    def __aiter__(self) -> AsyncIterator[WireEvent]:
        """Play the turn.

        Raises:
            ConflictError: if somebody else runs the session, or it does not wait for what was sent.
            AnswerError: if an answer does not fit its form.
            InputRefusedError: if a file of the request cannot be read.
            RunError: if the engine itself or the checkpointer fails; a component's failure is an event.
        """
        return cast("AsyncIterator[WireEvent]", self._play(False))

    def with_records(self) -> AsyncIterator[WireEvent | AgentRecord]:
        """Play the turn as iterating over the run does; records of its agents stand among the wire events."""
        return self._play(True)

    async def _play(self, with_records: bool) -> AsyncIterator[WireEvent | AgentRecord]:
        """Give the events. There is no other generator round this one: each event would pass through both."""
        self._running.add(self)
        began = self._services.clock.monotonic()
        projection = Projection(self._canvas.plan, created_at=float(self.envelope.created_at))
        try:
            async with self._session(), self._playing(projection) as graph:
                if graph is None:
                    yield self._asked(projection)
                    return
                end: TurnFinished | None = None
                while events := await self._sink.take():
                    for event in events:
                        if isinstance(event, TurnFinished):
                            end = event  # told once it is stored
                            continue
                        self._note(event)
                        if with_records and isinstance(event, AgentRecord):
                            yield event
                        for frame in projection.feed(event):
                            self._listen(frame, began)
                            yield frame
                for frame in await self._ending(graph, projection, end):
                    self._listen(frame, began)
                    yield frame
                if self._intent == "start" and self.status == "failed" and not self.failed_node:
                    raise InputRefusedError(self.error or "")  # no event has told of it
        except RagflowLgError as error:
            self._fail(error)
            raise
        finally:
            self._running.discard(self)
            if self.status == "running":
                self.status = "cancelled"
            elapsed_s = self._services.clock.monotonic() - began
            await self._watch.end(RunSummary(self.status, self.error, elapsed_s, self.usage, self.agents))

    @asynccontextmanager
    async def _session(self) -> AsyncGenerator[None]:
        """Hold the session, listen for cancels, keep the record; only with a store."""
        store = self._store
        if store is None:
            yield
            return
        async with AsyncExitStack() as held:
            lease = await self._lease(store)
            held.push_async_callback(lease.release)
            self.lease_token = lease.token
            self._config = with_lease_token(self._config, lease.token)
            self._turn.steps = _steps(self._canvas, self._config)
            await held.enter_async_context(store.cancels.watch(self.record.session, self.cancel))
            try:
                yield
            except BaseException as error:
                if isinstance(error, RagflowLgError):
                    self._fail(error)
                with suppress(CheckpointError):  # what has gone wrong first is what counts
                    await self._record_end(store, lease)
                raise
            await self._record_end(store, lease)

    async def _lease(self, store: SessionStore) -> Lease:
        """Take the session, as soon as it is free: a turn is heard to its end a moment before it lets go."""
        clock = self._services.clock
        until = clock.monotonic() + self._busy_s
        while True:
            try:
                return await store.leases.acquire(self.record.session, self._lose)
            except SessionBusyError:
                if clock.monotonic() >= until:
                    raise
                await asyncio.sleep(BUSY_POLL_S)

    def _fail(self, error: RagflowLgError) -> None:
        if self.status == "running":
            self.status, self.error = "failed", str(error)

    async def _record_end(self, store: SessionStore, lease: Lease) -> None:
        if self.status not in _STORED and not await lease.is_ours():  # a process that was asleep hears of it late
            self._is_lost = True
        await self._watch.keep(is_lost=self._is_lost)
        if self._has_begun and not self._is_lost:
            await store.runs.put(await self._ended(store))

    def _lose(self) -> None:
        """Another runner has taken the session over: stop without another word to the store."""
        self._is_lost = True
        self._turn.cancel()

    async def _ended(self, store: SessionStore) -> RunRecord:
        now = int(self._services.clock.now() * 1000)
        reason = self.error or ""
        statuses: dict[str, RunStatus] = {
            "succeeded": "succeeded",
            "failed": "failed",
            "waiting": "waiting",
            "drained": "running",
        }
        status = statuses.get(self.status, "cancelled")
        is_over = status in ("succeeded", "failed", "cancelled")
        return replace(
            self.record,
            status=status,
            reason=reason,
            checkpoint=await store.newest_checkpoint(self._config),
            is_cancel_requested=status == "cancelled",
            updated_ms=now,
            ended_ms=now if is_over else 0,
        )

    @asynccontextmanager
    async def _playing(self, projection: Projection) -> AsyncGenerator[asyncio.Task[None] | None]:
        """Play the graph in a task of its own; None where the user has to be asked again first."""
        request = await self._opened(projection)
        if request is None:
            yield None
            return
        self._has_begun = True
        self._watch.begin(self.record, self._intent, self._services.clock.now())
        if self._store is not None:
            await self._store.runs.put(self.record)
        graph = asyncio.create_task(self._invoke(request))
        graph.add_done_callback(lambda _: self._sink.close())
        try:
            yield graph
        except RagflowLgError:
            raise
        except Exception as error:
            self.status, self.error = "failed", _explain(error)
            raise RunError(self.error) from error
        finally:
            self._sink.close()
            if not graph.done():
                graph.cancel()
                await asyncio.gather(graph, return_exceptions=True)
            self._turn.limits.close()

    async def _ending(
        self, graph: asyncio.Task[None], projection: Projection, end: TurnFinished | None
    ) -> list[WireEvent]:
        """Give the last frames, once everything is stored. ``end`` is the word of the closing node, if it ran."""
        from langgraph.errors import GraphDrained

        try:
            await graph
        except RunCancelled:
            if self._is_lost:
                raise SessionBusyError(
                    "Another runner has taken this session over, or its store is gone: this one stopped."
                ) from None
            end = TurnFinished("cancelled", {}, CANCELLED_TEXT)
        except GraphDrained:
            if end is None:
                self.status = "drained"
                return []
        if end is not None:
            self._end(end)
            return list(projection.feed(end))
        if self.status == "running" and projection.waiting:
            return [self._asked(projection)]
        return []

    def _asked(self, projection: Projection) -> UserInputs:
        self.status = "waiting"
        return projection.user_inputs()

    # How the turn opens

    async def _opened(self, projection: Projection) -> Any:
        """Give what LangGraph is to be invoked with; None where the user has to be asked again."""
        fresh = {"query": "", **self._request}
        if not self._has_saver:
            if self._intent != "start":
                raise ConflictError("Nothing waits: without a session store every turn stands alone.")
            return fresh
        snapshot = await self._canvas.graph.aget_state(self._config)
        pauses = open_pauses(snapshot)
        if self._intent != "start" or self._request.get("inputs"):
            await self._check_canvas(snapshot)
        if self._intent == "start" and not pauses:
            return fresh
        if self._intent == "resume" and not pauses:
            raise ConflictError("The session does not wait for an answer. Start a new turn instead.")
        if self._intent == "continue" and (pauses or not snapshot.tasks):
            what = "waits for an answer; resume it" if pauses else "has nothing left to do; start a new turn"
            raise ConflictError(f"The session {what}.")
        projection.recall(snapshot.values)
        if self._intent == "continue":
            stored = stored_answers(snapshot)
            given = {p.id: {"inputs": stored[p.id]} for p in snapshot.interrupts if p.id in stored}
            return _resuming(given) if given else _GO_ON
        answers = match_answers(pauses, self._request, is_strict=self._intent == "resume")
        if not answers:
            for pause in pauses:
                projection.wait(pause.node, pause.tips, pause.inputs)
            return None
        return await self._resumed(snapshot.values, answers)

    async def _resumed(self, values: Mapping[str, Any], answers: Mapping[str, Any]) -> Any:
        update = await resume_turn(values, self._turn, self._request)
        # LangGraph forgets what it is resumed with if the process dies before the node has ended.
        update["turn"] = {"answers": to_json(answers)}
        return _resuming({pause: {"inputs": fields} for pause, fields in answers.items()}, update)

    async def _check_canvas(self, snapshot: Any) -> None:
        """Refuse to go on where the canvas has lost the nodes that come next, or repeats an open region otherwise."""
        began: TurnRecord = snapshot.values.get("turn", {})
        if began.get("canvas_hash") in (None, self._canvas.plan.canvas_hash):
            return
        if lost := await self._lost(self._canvas.graph, "", began.get("regions", {})):
            raise CanvasChangedError(
                f"The canvas has changed since the turn began: {', '.join(dict.fromkeys(lost))}. "
                "Go on with the canvas as it was, or start a new turn."
            )

    async def _lost(self, graph: Any, namespace: str, shapes: Mapping[str, str]) -> list[str]:
        """Say what the graph does not have of all that was entered; within open regions too."""
        root: Any = self._canvas.graph
        held: Any = self._config
        place: Any = {"configurable": {**held["configurable"], "checkpoint_ns": namespace}}
        found = await root.checkpointer.aget_tuple(place)
        channels: Mapping[str, Any] = found.checkpoint["channel_values"] if found else {}
        entered = [name.removeprefix(ENTERED) for name in channels if name.startswith(ENTERED)]
        lost = [f"{name} is gone" for name in entered if name not in graph.nodes]
        ids = {name: id_ for id_, name in self._canvas.names.items()}
        for task in (await root.aget_state(place)).tasks:
            owner = ids.get(task.name)
            was, now = (shapes.get(owner), self._canvas.plan.region_shapes.get(owner)) if owner else (None, None)
            if was and was != now:
                lost.append(f"{owner} was {was} and is {now or 'none any more'}")
            elif inner := graph.nodes[task.name].subgraphs:
                below = f"{task.name}:{task.id}"
                lost += await self._lost(inner[0], f"{namespace}|{below}" if namespace else below, shapes)
        return lost

    # Playing

    async def _invoke(self, request: Any) -> None:
        from langgraph.runtime import RunControl

        self._control = RunControl()
        if self._is_draining:
            self._control.request_drain()
        extra: dict[str, Any] = {"durability": "sync"} if self._has_saver else {}
        graph: Any = self._canvas.graph
        supersteps = graph.astream(
            None if request is _GO_ON else request,
            self._config,
            context=self._turn,
            stream_mode=[],  # the events tell everything
            control=self._control,
            **extra,
        )
        async for _ in supersteps:
            pass

    def _end(self, event: TurnFinished) -> None:
        self.status, self.error = event.status, event.error

    def _note(self, event: EngineEvent) -> None:
        self._watch.note(event)
        if isinstance(event, NodeFinished):
            if event.usage is not None:
                self.usage = self.usage.plus(event.usage)
            if event.is_halting:
                self.failed_node, self.error = event.node, event.error

    def _listen(self, frame: WireEvent, began: float) -> None:
        if isinstance(frame, Message):
            self._is_thinking = (self._is_thinking or frame.start_to_think) and not frame.end_to_think
            if not self._is_thinking:
                self._answer.append(frame.content)
        elif isinstance(frame, WorkflowFinished):
            frame.elapsed_time = self._services.clock.monotonic() - began


def _resuming(answers: Mapping[str, Any], update: Mapping[str, Any] | None = None) -> Any:
    from langgraph.types import Command

    return Command(resume=dict(answers), update=update)


def _steps(canvas: CompiledCanvas, config: Any) -> Steps | None:
    """Give where steps are kept: only a saver of our own can."""
    graph: Any = canvas.graph
    saver = graph.checkpointer
    return saver.steps(config) if hasattr(saver, "steps") else None


_STORED = ("succeeded", "waiting", "drained")
"""How a run stands whose last checkpoint the store has taken, and so from the holder of the session."""
_GO_ON = object()
"""Stands for LangGraph's None: no input, go on with what is unfinished."""

BUSY_POLL_S = 0.05
"""How often whoever waits for a session asks whether it is free."""

ENTERED = "branch:to:"
"""What LangGraph names the channel by which a node is entered."""


def _explain(error: Exception) -> str:
    from langgraph.errors import GraphRecursionError

    if isinstance(error, GraphRecursionError):
        return "The flow went round a cycle too often and was stopped. Check the condition that leaves the cycle."
    return f"{type(error).__name__}: {error}"
