"""Running a compiled canvas: one turn of one session, as a stream of RAGFlow's wire events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from ragflow_lg.compiled import CompiledCanvas
from ragflow_lg.context import EventSink, TurnContext
from ragflow_lg.errors import RagflowLgError, RunError
from ragflow_lg.events import NodeFinished, TurnFinished
from ragflow_lg.ids import SessionId, session_of_thread, thread_of_session
from ragflow_lg.projection import Projection
from ragflow_lg.state import TurnRequest
from ragflow_lg.wire import Envelope, Message, WireEvent, WorkflowFinished

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from ragflow_lg.services import Services

__all__ = ["Run", "Runner"]


class Runner:
    """Runs turns of a canvas. With a saver, the turns of one session build on each other."""

    def __init__(
        self,
        canvas: CompiledCanvas,
        services: Services,
        *,
        saver: BaseCheckpointSaver[Any] | None = None,
        event_limit: int = 256,
    ) -> None:
        """``event_limit`` is how many events may wait for a slow reader before the nodes have to."""
        self._canvas = canvas.with_saver(saver)
        self._services = services
        self._has_saver = saver is not None
        self._event_limit = event_limit

    def start(self, session: SessionId | str, request: TurnRequest) -> Run:
        """Begin a new turn of a session. Nothing runs before the result is iterated over."""
        return Run(self._canvas, self._services, session, request, self._has_saver, self._event_limit)

    async def state(self, session: SessionId | str) -> dict[str, Any]:
        """Give the stored state of a session, empty if it has none. Needs a saver."""
        if not self._has_saver:
            return {}
        snapshot = await self._canvas.graph.aget_state(_config(self._canvas, session))
        return snapshot.values


class Run:
    """One turn: iterate over it once to play it and get its wire events.

    Leaving the iteration early ends the turn. The other attributes are complete once the iteration is over.
    """

    def __init__(
        self,
        canvas: CompiledCanvas,
        services: Services,
        session: SessionId | str,
        request: TurnRequest,
        has_saver: bool,
        event_limit: int,
    ) -> None:
        self._canvas = canvas
        self._request = request
        self._config = _config(canvas, session)
        self._has_saver = has_saver
        self._turn = TurnContext(services, EventSink(event_limit))
        self._answer: list[str] = []
        self._is_thinking = False
        session_id = session_of_thread(thread_of_session(session))
        self.envelope = Envelope(services.ids.run_id(), int(services.clock.now()), session_id, session_id)
        self.status = "running"
        """``running``, then ``succeeded``, ``failed`` or ``cancelled``."""
        self.error: str | None = None
        """What stopped the turn, if anything did."""
        self.failed_node = ""
        """Id of the node whose error stopped the turn."""

    @property
    def answer(self) -> str:
        """The text of all messages so far, thinking left out."""
        return "".join(self._answer)

    def cancel(self) -> None:
        """Stop the turn: running nodes end at once, the iteration ends soon after."""
        self._turn.cancel()

    def __aiter__(self) -> AsyncIterator[WireEvent]:
        """Play the turn.

        Raises:
            RunError: if the engine itself or the checkpointer fails; a component's failure is an event.
        """
        return self._play()

    async def _play(self) -> AsyncIterator[WireEvent]:
        clock, sink = self._turn.services.clock, self._turn.sink
        assert sink is not None
        began = clock.monotonic()
        projection = Projection(self._canvas.plan, created_at=float(self.envelope.created_at))
        graph = asyncio.create_task(self._invoke())
        graph.add_done_callback(lambda _: sink.close())
        try:
            while events := await sink.take():
                for event in events:
                    self._note(event)
                    for frame in projection.feed(event):
                        self._listen(frame, clock.monotonic() - began)
                        yield frame
            await graph
        except RagflowLgError as error:
            self.status, self.error = "failed", str(error)
            raise
        except Exception as error:
            self.status, self.error = "failed", _explain(error)
            raise RunError(self.error) from error
        finally:
            sink.close()
            if not graph.done():
                graph.cancel()
                await asyncio.gather(graph, return_exceptions=True)
            if self.status == "running":
                self.status = "cancelled"

    async def _invoke(self) -> None:
        request = {"query": "", **self._request}
        extra: dict[str, Any] = {"durability": "sync"} if self._has_saver else {}
        # The events tell everything; asking for one small channel spares the reading of all at every superstep.
        graph: Any = self._canvas.graph
        await graph.ainvoke(request, self._config, context=self._turn, output_keys="turn", **extra)

    def _note(self, event: object) -> None:
        if isinstance(event, NodeFinished) and event.is_halting:
            self.failed_node, self.error = event.node, event.error
        elif isinstance(event, TurnFinished):
            self.status, self.error = event.status, event.error

    def _listen(self, frame: WireEvent, elapsed_s: float) -> None:
        if isinstance(frame, Message):
            self._is_thinking = (self._is_thinking or frame.start_to_think) and not frame.end_to_think
            if not self._is_thinking:
                self._answer.append(frame.content)
        elif isinstance(frame, WorkflowFinished):
            frame.elapsed_time = elapsed_s


def _config(canvas: CompiledCanvas, session: SessionId | str) -> Any:
    return {
        "configurable": {"thread_id": thread_of_session(session)},
        "recursion_limit": canvas.recursion_limit,
    }


def _explain(error: Exception) -> str:
    from langgraph.errors import GraphRecursionError

    if isinstance(error, GraphRecursionError):
        return "The flow went round a cycle too often and was stopped. Check the condition that leaves the cycle."
    return f"{type(error).__name__}: {error}"
