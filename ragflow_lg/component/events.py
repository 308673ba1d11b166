"""Engine events, which nodes emit while a turn runs, and their queue.

They are in chronological order; events from parallel nodes are interleaved. `ragflow_lg.runs.wire.message_order`
converts them to RAGFlow's wire events, which have a different order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from ragflow_lg.base.errors import RunCancelled
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.thinking import Mark
from ragflow_lg.base.values import JsonValue
from ragflow_lg.services.agent_metrics import AgentMetrics
from ragflow_lg.services.chat import Usage


class TurnStarted(NamedTuple):
    """The entry node opened a turn. ``globals`` contains all ``sys.*`` and ``env.*`` values at its start."""

    globals: dict[str, JsonValue]
    inputs: dict[str, Any]
    seed: int
    is_demo: bool = False
    """Whether the demo model answers, and samples take the place of what the settings lack."""


class StreamedSegment(NamedTuple):
    """A segment of a Message that shows a model's answer while it arrives.

    ``text`` is shown instead if the model does not run before the Message.
    """

    model: NodeId
    text: str


Preview: TypeAlias = tuple[str | StreamedSegment | None, ...]
"""The segments of a Message that has not run yet; None for a text that is not final."""


class NodeStarted(NamedTuple):
    """A node starts. ``created_at`` is in epoch seconds.

    ``place`` is the same for all events of one execution: the numbers of the enclosing rounds, separated by dots.
    ``previews`` are the Messages that can show this model's answer before they run, each as the model's state knows it.
    """

    node: NodeId
    created_at: float
    visit: int = 0
    """The number of the node execution within the run, starting at 1, to distinguish parallel ones; 0 for regions."""
    place: str = ""
    previews: Mapping[NodeId, Preview] | None = None


class Delta(NamedTuple):
    """A piece of a model's answer, from a node that streams into a Message.

    ``mark`` is ``start`` or ``end`` where a thinking section starts or ends (``text`` is then ``""``).
    """

    node: NodeId
    text: str
    mark: Mark = ""
    place: str = ""
    is_aside: bool = False
    """Whether the piece is shown, but is no part of the answer as it is stored."""


class AnswerDiscarded(NamedTuple):
    """All deltas of a model so far are void: it failed and starts again, or they turned out to be thinking."""

    node: NodeId
    place: str = ""


class MessagePiece(NamedTuple):
    """The text of a Message's segment number ``segment``, starting at 0; ``model`` if it is that model's answer."""

    node: NodeId
    segment: int
    text: str
    model: NodeId | None = None
    place: str = ""


class NodeFinished(NamedTuple):
    """A node has finished, successfully or not.

    ``targets`` are the successors that it chose; ``fallback`` is the text that is sent as a separate message if it
    fails; ``end`` is the data for ``message_end``, only for a Message.
    """

    node: NodeId
    created_at: float
    elapsed_s: float
    inputs: dict[str, JsonValue]
    outputs: dict[str, JsonValue]
    error: str | None = None
    targets: tuple[NodeId, ...] = ()
    is_halting: bool = False
    fallback: str = ""
    end: dict[str, JsonValue] | None = None
    usage: Usage | None = None
    visit: int = 0
    place: str = ""
    attempts: int = 1
    """How often the component ran: more than once if it was retried after errors."""
    notices: tuple[str, ...] = ()
    """What an author should know although the node did not fail, such as messages that did not fit into the context."""
    finish_reason: str = ""
    """``length`` or ``content_filter`` if the model's answer was cut off or blocked."""


class Waiting(NamedTuple):
    """A node is waiting for the user. ``fields`` are the form's fields, as sent to clients."""

    node: NodeId
    tips: str
    fields: Mapping[str, Mapping[str, JsonValue]]
    place: str = ""
    """The rounds of the regions around the node, as in `NodeStarted`."""


class TurnFinished(NamedTuple):
    """The closing node ended the turn.

    ``outputs`` are the last node's outputs; ``error`` is the error that stopped the turn, and ``failed_node`` the node
    that caused it, or ``""`` if the request did.
    """

    status: Literal["succeeded", "failed", "cancelled"]
    outputs: dict[str, JsonValue]
    error: str | None = None
    failed_node: str = ""


AgentRecordKind: TypeAlias = Literal[
    "iteration_started",
    "iteration_finished",
    "iteration_failed",
    "tool_started",
    "tool_finished",
    "tool_failed",
    "thought",
    "note",
    "agent_finished",
]


class AgentRecord(NamedTuple):
    """An action of an agent. All strategies emit the same records, which are not sent to RAGFlow's clients.

    Texts in ``details`` are redacted and bounded. The contents depend on the kind:

    - all but ``note`` and ``agent_finished``: ``iteration``, the number of the model round, starting at 1;
    - ``iteration_*``: ``model``, ``step``; finished ``seconds``, ``usage``, ``calls`` (names); failed ``error``;
    - ``tool_*``: ``tool`` (the name shown to the model), ``title``, ``arguments``, ``position`` in the round, starting
      at 0, ``step``, ``call_id``; finished ``result``, ``seconds`` and, if it created
      files, ``files`` (``name``, ``url``, ``mime_type`` and ``size`` of each); failed ``error``, ``seconds`` and
      ``was_called``, which is false if no tool was called;
    - ``thought``: ``text``;
    - ``note``: ``title``, ``result``, ``seconds``: work outside the rounds, such as rewriting the question;
    - ``agent_finished``: all of `ragflow_lg.services.agent_metrics.AgentMetrics`.
    """

    node: NodeId
    """The component of the canvas that is running."""
    path: str
    """That component, or ``component-->tool`` for an agent called as its tool, to any depth."""
    visit: int
    """The number of the component's execution, as in `NodeStarted`."""
    caller: str
    """The tool call that started the agent: the ``step`` of each enclosing call, separated by ``/``, or ``""``."""
    kind: AgentRecordKind
    created_at: float
    """Epoch seconds."""
    details: Mapping[str, JsonValue]
    is_replayed: bool = False
    """Whether the result was restored after a crash or a retry."""
    metrics: AgentMetrics | None = None
    """Only with ``agent_finished``."""

    event = "agent_record"

    def data(self) -> dict[str, JsonValue]:
        """Return the record as JSON, without ``event``."""
        return {
            "component_id": self.node,
            "path": self.path,
            "visit": self.visit,
            "caller": self.caller,
            "kind": self.kind,
            "created_at": self.created_at,
            "is_replayed": self.is_replayed,
            **self.details,
        }


class ModelCalled(NamedTuple):
    """A call of a model has ended. It is stored with the run, but not published to followers.

    Texts in ``details`` are redacted and bounded: ``model``, ``system``, ``messages`` and ``tools`` (names) as they
    were sent, ``sampling``, ``images`` (their number), ``answer``, ``calls`` (``name`` and ``arguments``), ``error``.
    """

    node: NodeId
    path: str
    """That component, or the tool in it that called the model."""
    visit: int
    """The number of the component's execution, as in `NodeStarted`."""
    place: str
    created_at: float
    """Epoch seconds."""
    seconds: float
    usage: Usage
    details: Mapping[str, JsonValue]


EngineEvent: TypeAlias = (
    TurnStarted
    | NodeStarted
    | Delta
    | AnswerDiscarded
    | MessagePiece
    | NodeFinished
    | Waiting
    | TurnFinished
    | AgentRecord
    | ModelCalled
)


class EventSink:
    """A bounded queue from the nodes of one run to its single reader.

    If the sink is full, writers wait; if it is closed, further events are dropped. The reader asks for more events when
    it has handled the last ones. A reader that leaves closes the sink before it has handled all of them.
    """

    def __init__(self, limit: int = 256) -> None:
        self._limit = limit
        self._events: list[EngineEvent] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._reader: asyncio.Future[None] | None = None
        self._added = 0
        self._taken = 0
        self._handled = 0
        self._handlings: list[tuple[int, asyncio.Future[bool]]] = []
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        """Whether the next writer has to wait."""
        return len(self._events) >= self._limit and not self._is_closed

    async def room(self) -> None:
        """Wait until the sink is not full."""
        while self.is_full:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def put(self, event: EngineEvent) -> None:
        """Add an event, regardless of the limit."""
        self._added += 1
        if self._is_closed:
            return
        self._events.append(event)
        reader = self._reader
        if reader is not None and not reader.done():
            reader.set_result(None)

    async def take(self) -> list[EngineEvent]:
        """Wait for events and return all of them; an empty list means that the sink is closed."""
        self._handled = self._taken
        self._report_handled()
        while not self._events and not self._is_closed:
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        events, self._events = self._events, []
        self._taken += len(events)
        if self._waiters:
            self._release()
        return events

    async def handled(self) -> None:
        """Wait until the reader has handled all events that have been added.

        Raises:
            RunCancelled: if the reader has left before. What depends on these events must not be stored.
        """
        if self._handled >= self._added:
            return
        if self._is_closed:
            raise RunCancelled
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._handlings.append((self._added, future))
        if not await future:
            raise RunCancelled

    def close(self) -> None:
        """Close the queue: the reader receives the remaining events, and writers no longer wait."""
        self._is_closed = True
        self._release()
        self._report_handled()
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _report_handled(self) -> None:
        while self._handlings and (self._is_closed or self._handlings[0][0] <= self._handled):
            added, future = self._handlings.pop(0)
            if not future.done():
                future.set_result(added <= self._handled)

    def _release(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
