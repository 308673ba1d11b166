"""Engine events: what nodes emit while a turn runs.

They come in chronological order; parallel nodes interleave. ``projection`` converts them to
RAGFlow's wire events (``wire``), which have a different order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import JsonValue
from ragflow_lg.services.agent_metrics import AgentMetrics
from ragflow_lg.services.chat import Usage


class TurnStarted(NamedTuple):
    """The entry node opened a turn. ``globals`` are all ``sys.*`` and ``env.*`` values at its start."""

    globals: dict[str, JsonValue]
    inputs: dict[str, Any]
    seed: int


class NodeStarted(NamedTuple):
    """A node starts. ``created_at`` is epoch seconds."""

    node: NodeId
    created_at: float
    visit: int = 0
    """Numbers the visits of a run from 1, to distinguish parallel visits of one node; 0 for regions."""


class Delta(NamedTuple):
    """A piece of a model's answer, from a node that streams into a Message.

    ``mark`` is ``start`` or ``end`` at the border of a thinking section (``text`` is then ``""``).
    """

    node: NodeId
    text: str
    mark: Literal["", "start", "end"] = ""


class MessagePiece(NamedTuple):
    """A piece of a Message: the text of its segment number ``segment``, counted from 0."""

    node: NodeId
    segment: int
    text: str


class NodeFinished(NamedTuple):
    """A node has finished, successfully or not.

    ``targets`` are the successors it chose; ``globals`` and ``patches`` are its assignments to other places
    (``patches``: ``{node: {output: value}}``); ``fallback`` is the text that replaces its failure, sent as
    a separate message; ``end`` is the data of ``message_end``, from a Message only.
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
    globals: dict[str, JsonValue] | None = None
    patches: dict[str, dict[str, JsonValue]] | None = None
    end: dict[str, JsonValue] | None = None
    usage: Usage | None = None
    visit: int = 0


class Waiting(NamedTuple):
    """A node waits for the user. ``fields`` are the form's fields in the format for clients."""

    node: NodeId
    tips: str
    fields: Mapping[str, Mapping[str, JsonValue]]


class TurnFinished(NamedTuple):
    """The closing node ended the turn.

    ``outputs`` are those of the last node; ``error`` is the error that stopped the turn.
    """

    status: Literal["succeeded", "failed", "cancelled"]
    outputs: dict[str, JsonValue]
    error: str | None = None


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
    """An action of an agent. All strategies emit the same records; RAGFlow's clients do not get them.

    Texts in ``details`` are redacted and bounded. The details by kind:

    - all but ``note`` and ``agent_finished``: ``iteration``, the number of the model's round, from 1;
    - ``iteration_*``: ``model``, ``step``; finished ``seconds``, ``usage``, ``calls`` (names); failed ``error``;
    - ``tool_*``: ``tool`` (the name shown to the model), ``title``, ``arguments``, ``position`` in the round from 0,
      ``step``, ``call_id``; finished ``result`` and ``seconds``; failed ``error``, ``seconds`` and ``was_called``,
      which is false if no tool was called;
    - ``thought``: ``text``;
    - ``note``: ``title``, ``result``, ``seconds``: work outside the rounds, such as rewriting the question;
    - ``agent_finished``: all of `ragflow_lg.services.agent_metrics.AgentMetrics`.
    """

    node: NodeId
    """The component of the canvas that is running."""
    path: str
    """That component, or ``component-->tool`` for an agent that is a tool of it, to any depth."""
    visit: int
    """The visit of the component, as in `NodeStarted`."""
    caller: str
    """The tool call that the agent works for: the ``step`` of each enclosing call, separated by ``/``; ``""`` at the
    top."""
    kind: AgentRecordKind
    created_at: float
    """Epoch seconds."""
    details: Mapping[str, JsonValue]
    is_replayed: bool = False
    """Whether the result was restored after a crash or a retry."""
    metrics: AgentMetrics | None = None
    """With ``agent_finished``."""

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


EngineEvent: TypeAlias = (
    TurnStarted | NodeStarted | Delta | MessagePiece | NodeFinished | Waiting | TurnFinished | AgentRecord
)
