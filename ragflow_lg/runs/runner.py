"""Running a compiled canvas: each turn is a stream of RAGFlow's wire events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from langgraph.constants import END
from msgspec.structs import replace

from ragflow_lg.base.errors import CheckpointError, ConflictError
from ragflow_lg.base.ids import SessionId, session_of_thread, thread_of_session
from ragflow_lg.component.state import TurnRequest
from ragflow_lg.engine.compiled_canvas import CompiledCanvas
from ragflow_lg.runs.branching import fork, rerun
from ragflow_lg.runs.callbacks import DEFAULT_LIMITS, CallbackLimits, CallbackSet, RunCallbacks
from ragflow_lg.runs.graph_input import Intent
from ragflow_lg.runs.pauses import Pause, assigned_globals, open_pauses
from ragflow_lg.runs.progress import Progress, read_progress
from ragflow_lg.runs.run import Run
from ragflow_lg.runs.run_session import PlayOptions, newest_run
from ragflow_lg.runs.stored_steps import CheckpointInfo, StoredSteps, list_checkpoints
from ragflow_lg.runs.stored_turn import check_canvas
from ragflow_lg.runs.stored_variables import Moment, read_moment
from ragflow_lg.services.sessions import SessionStore, Trace, hold_lease, with_lease_token

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from ragflow_lg.component.plan import Plan
    from ragflow_lg.runs.wire.wire_events import Envelope
    from ragflow_lg.services.services import Clock, Services


class Runner:
    """Runs a canvas's turns. With a saver, the turns in a session build on each other.

    A ``store`` includes a saver and prevents concurrent runs of a session. Without either, canvases that ask the user
    keep sessions in memory.
    """

    def __init__(
        self,
        canvas: CompiledCanvas,
        services: Services,
        *,
        saver: BaseCheckpointSaver[Any] | None = None,
        store: SessionStore | None = None,
        canvas_id: str = "",
        model: str = "",
        event_limit: int = 256,
        callbacks: Sequence[RunCallbacks] = (),
        callback_limits: CallbackLimits = DEFAULT_LIMITS,
        busy_s: float = 0.0,
        answers_questions: bool = True,
    ) -> None:
        """Create a runner.

        ``canvas_id`` and ``model``, which replaces the models of the canvas in ``services``, are stored with each run.
        ``event_limit`` is the number of events that may wait for a slow reader before nodes are slowed down. ``busy_s``
        is the number of seconds that a run waits for a busy session. Without ``answers_questions``, clients neither see
        nor answer questions about calls, such as approvals. ``callbacks`` receive the events of every run, within
        ``callback_limits``.
        """
        if store is not None:
            saver = store.saver
        elif saver is None and any(node.spec.kind == "interrupt" for node in canvas.plan.nodes.values()):
            from langgraph.checkpoint.memory import InMemorySaver

            saver = InMemorySaver()
        self._canvas = canvas.with_saver(saver)
        self.services = services
        self._store = store
        self._leases = store.leases if store is not None else None
        self._checkpointer = saver
        self._options = PlayOptions(
            self._canvas,
            services,
            store,
            canvas_id,
            model,
            event_limit,
            CallbackSet(tuple(callbacks), callback_limits),
            busy_s,
            set(),
            answers_questions,
        )

    def start(self, session: SessionId | str, request: TurnRequest, *, ignores_unknown: bool = False) -> Run:
        """Start a new turn or answer the open forms; RAGFlow's clients use the same request for both.

        Nothing runs until you iterate over the result. The run raises AnswerError if the fields do not fit. With
        ``ignores_unknown``, those that the canvas does not know are only logged.
        """
        return Run(self._options, session, "start", request, ignores_unknown=ignores_unknown)

    def take_over(self, session: SessionId | str, envelope: Envelope, progress: Progress) -> Run:
        """Continue a turn under the name of the run that was interrupted, or send its open form again.

        ``progress`` is how far it has got. No other process may continue it.
        """
        intent: Intent = "start" if progress.is_waiting else "continue"
        return Run(self._options, session, intent, {}, envelope, progress, ignores_unknown=True)

    def play(self, session: SessionId | str, intent: Intent, request: TurnRequest, envelope: Envelope) -> Run:
        """Start a run that another process has ordered under the name in the ``envelope``."""
        return Run(self._options, session, intent, request, envelope, ignores_unknown=True)

    def resume(self, session: SessionId | str, answers: Mapping[str, Any], request: TurnRequest | None = None) -> Run:
        """Answer a waiting session, either by field name or by pause id, with a map of fields for each pause.

        The run raises ConflictError if the session is not waiting, and AnswerError if an answer is invalid. In the
        latter case, the session continues to wait.
        """
        return Run(self._options, session, "resume", {**(request or {}), "inputs": dict(answers)})

    def continue_(self, session: SessionId | str) -> Run:
        """Continue a turn after a crash, a stop or a cancellation: only unfinished nodes run.

        The run raises ConflictError if there is nothing to continue.
        """
        return Run(self._options, session, "continue", {})

    async def abandon(self, session: SessionId | str) -> None:
        """Abandon a turn that is waiting for an answer, so that the next `start` begins a new turn.

        Raises:
            ConflictError: if the session is not waiting, or is running.
        """
        self._saver()
        await abandon(self._canvas, session, self._store, self.services.clock)

    async def state(self, session: SessionId | str) -> dict[str, Any]:
        """Return a session's stored state, which is empty if there is no session or no saver.

        The globals include what a region has assigned that is waiting for an answer.
        """
        if not self._canvas.has_saver:
            return {}
        snapshot = await self._canvas.graph.aget_state(self._canvas.thread_config(session), subgraphs=True)
        if assigned := assigned_globals(snapshot):
            return {**snapshot.values, "globals": {**snapshot.values.get("globals", {}), **assigned}}
        return snapshot.values

    async def pauses(self, session: SessionId | str) -> list[Pause]:
        """Return a session's open pauses."""
        if not self._canvas.has_saver:
            return []
        return open_pauses(await self._snapshot(session), self._canvas.plan.unchecked_forms)

    async def unfinished_checkpoint(self, session: SessionId | str) -> str:
        """Return the checkpoint at which a session's last turn was interrupted, or ``""`` if it was not.

        A turn that is running or waiting for an answer is not interrupted. In a region, it is the region's checkpoint,
        if the region has one already.
        """
        session_id = session_of_thread(thread_of_session(session))
        if not self._canvas.has_saver or (self._leases is not None and await self._leases.holder(session_id)):
            return ""
        snapshot = await self._snapshot(session, subgraphs=True)
        if not snapshot.tasks or open_pauses(snapshot):
            return ""
        places = [snapshot.config["configurable"]["checkpoint_id"]]
        while inner := [task.state for task in snapshot.tasks if hasattr(task.state, "values")]:
            snapshot = inner[0]
            places.append(snapshot.config["configurable"].get("checkpoint_id", places[-1]))
        return places[-1]

    async def progress(self, session: SessionId | str) -> Progress:
        """Return how far a session's last turn has got."""
        return await read_progress(self._canvas, self._canvas.thread_config(session))

    async def require_continuable(self, session: SessionId | str) -> None:
        """Check that this canvas can continue a session's unfinished turn, which another canvas may have started.

        Raises:
            CanvasChangedError: if it cannot.
        """
        await check_canvas(self._canvas, self._canvas.thread_config(session), await self._snapshot(session))

    async def _snapshot(self, session: SessionId | str, *, subgraphs: bool = False) -> Any:
        return await self._canvas.graph.aget_state(self._canvas.thread_config(session), subgraphs=subgraphs)

    async def state_at(self, session: SessionId | str, checkpoint: str) -> dict[str, Any]:
        """Return the state of the canvas at one of a session's checkpoints, which is empty if it is gone."""
        steps = StoredSteps(self._canvas, self._saver(), session)
        snapshot: Any = await self._canvas.graph.aget_state(steps.config("", checkpoint))
        return snapshot.values

    async def moment(self, session: SessionId | str, checkpoint: str) -> Moment:
        """Return a stored step with its values and those before it; see `ragflow_lg.runs.stored_variables`."""
        return await read_moment(StoredSteps(self._canvas, self._saver(), session), checkpoint)

    async def fork(self, session: SessionId | str, target: SessionId | str, checkpoint: str = "") -> None:
        """Create a session from another session or one of its checkpoints. See `ragflow_lg.runs.branching.fork`."""
        await fork(
            self._canvas, self._saver(), session, target, checkpoint, leases=self._leases, services=self.services
        )

    async def rerun(
        self,
        session: SessionId | str,
        target: SessionId | str,
        node: str,
        *,
        round: int | None = None,
        changes: Mapping[str, Any] | None = None,
    ) -> Run:
        """Rerun a session's last turn from a given node, as a new session. See `ragflow_lg.runs.branching.rerun`."""
        await rerun(
            self._canvas,
            self._saver(),
            session,
            target,
            node,
            round=round,
            changes=changes,
            leases=self._leases,
            services=self.services,
        )
        return Run(self._options, target, "continue", {})

    @property
    def plan(self) -> Plan:
        """The canvas's plan."""
        return self._canvas.plan

    def history(self, session: SessionId | str) -> AsyncIterator[CheckpointInfo]:
        """Yield a session's stored steps, newest first."""
        return list_checkpoints(self._canvas, self._saver(), session)

    async def trace(self, run_id: str) -> Trace | None:
        """Return a run's agent trace in RAGFlow's format, or None if it is not stored."""
        return await self._store.traces.get(run_id) if self._store is not None else None

    def _saver(self) -> BaseCheckpointSaver[Any]:
        if self._checkpointer is None:
            raise CheckpointError("Without a session store, there are no earlier checkpoints.")
        return self._checkpointer

    def drain(self) -> None:
        """Stop every run at the end of its superstep; `continue_` resumes it, in this process or another."""
        for control in self._options.running:
            control.request_drain()


async def abandon(canvas: CompiledCanvas, session: SessionId | str, store: SessionStore | None, clock: Clock) -> None:
    """Close a session's open forms and cancel its turn. The history and the globals are kept, also those of regions.

    The canvas may no longer contain the waiting nodes, so the stored run record is checked as well.

    Raises:
        ConflictError: if the session is not waiting, or is running.
    """
    graph: Any = canvas.with_saver(store.saver).graph if store is not None else canvas.graph
    config: Any = canvas.thread_config(session)
    session_id = session_of_thread(thread_of_session(session))
    async with AsyncExitStack() as stack:
        if store is not None:
            config = with_lease_token(config, await stack.enter_async_context(hold_lease(store.leases, session_id)))
        snapshot: Any = await graph.aget_state(config, subgraphs=True)
        assigned = assigned_globals(snapshot)
        newest = await newest_run(store, session_id) if store is not None else None
        if not open_pauses(snapshot) and (newest is None or newest.status != "waiting"):
            raise ConflictError("The session is not waiting for an answer.")
        while snapshot.tasks:  # first the open tasks, then the closing node, which follows them
            await graph.aupdate_state(config, None, as_node=END)
            snapshot = await graph.aget_state(config)
        if assigned:
            await graph.aupdate_state(config, {"globals": assigned}, as_node=canvas.names[canvas.plan.entry])
        if store is not None and newest is not None:
            now = int(clock.now() * 1000)
            await store.runs.put(
                replace(newest, status="cancelled", is_cancel_requested=True, updated_ms=now, ended_ms=now)
            )
