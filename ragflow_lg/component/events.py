"""What nodes say while a turn runs: engine events.

They come in the order in which things happen; parallel nodes interleave. ``projection`` turns them into
RAGFlow's wire events (``wire``), whose order is another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import JsonValue
from ragflow_lg.services.agent_metrics import AgentMetrics
from ragflow_lg.services.chat import Usage

__all__ = [
    "AgentRecord",
    "AgentRecordKind",
    "Delta",
    "EngineEvent",
    "NodeFinished",
    "NodeStarted",
    "MessagePiece",
    "TurnFinished",
    "TurnStarted",
    "Waiting",
]


class TurnStarted(NamedTuple):
    """The entry node opened a turn. ``globals`` are all ``sys.*`` and ``env.*`` values at its start."""

    globals: dict[str, JsonValue]
    inputs: dict[str, Any]
    seed: int


class NodeStarted(NamedTuple):
    """A node begins its work. ``created_at`` is epoch seconds."""

    node: NodeId
    created_at: float
    visit: int = 0
    """Numbers the visits of a run from 1, so that two of one node at the same time stay apart; 0 for regions."""


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
    """A node is done, well or not.

    ``targets`` are the successors it chose; ``globals`` and ``patches`` what it assigned elsewhere
    (``patches``: ``{node: {output: value}}``); ``fallback`` the text that stands in for its failure, sent as
    a message of its own; ``end`` the data of ``message_end``, from a Message only.
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
    """A node waits for the user. ``fields`` are the form's fields as clients are sent them."""

    node: NodeId
    tips: str
    fields: Mapping[str, Mapping[str, JsonValue]]


class TurnFinished(NamedTuple):
    """The closing node ended the turn. ``outputs`` are those of the last node; ``error`` stopped it, if any."""

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
    """What an agent did just now. Every strategy gives the same records; no client of RAGFlow is sent them.

    Texts in ``details`` have no secrets and are bounded. What the kinds have there:

    - all but ``note`` and ``agent_finished``: ``iteration``, the number of the model's round, from 1;
    - ``iteration_*``: ``model``, ``step``; finished ``seconds``, ``usage``, ``calls`` (names); failed ``error``;
    - ``tool_*``: ``tool`` (the name shown to the model), ``title``, ``arguments``, ``position`` in the round from 0,
      ``step``, ``call_id``; finished ``result`` and ``seconds``; failed ``error``, ``seconds`` and ``was_called``,
      which is false where no tool was reached;
    - ``thought``: ``text``;
    - ``note``: ``title``, ``result``, ``seconds``: work around the rounds, such as rewriting the question;
    - ``agent_finished``: all of `ragflow_lg.services.agent_metrics.AgentMetrics`.
    """

    node: NodeId
    """The component of the canvas that is at work."""
    path: str
    """That component, or ``component-->tool`` for an agent that is a tool of it, to any depth."""
    visit: int
    """The visit of the component, as in `NodeStarted`."""
    caller: str
    """Which call of a tool the agent works for: the ``step`` of each call on the way, ``/`` between; ``""`` at the top.
    """
    kind: AgentRecordKind
    created_at: float
    """Epoch seconds."""
    details: Mapping[str, JsonValue]
    is_replayed: bool = False
    """Whether the result was there already, from before a crash or a retry."""
    metrics: AgentMetrics | None = None
    """With ``agent_finished``."""

    event = "agent_record"

    def data(self) -> dict[str, JsonValue]:
        """Give the record as JSON, without ``event``."""
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
