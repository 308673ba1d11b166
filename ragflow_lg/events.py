"""What nodes say while a turn runs: engine events.

They come in the order in which things happen; parallel nodes interleave. ``projection`` turns them into
RAGFlow's wire events (``wire``), whose order is another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from ragflow_lg.ids import NodeId
from ragflow_lg.services import Usage
from ragflow_lg.values import JsonValue

__all__ = ["Delta", "EngineEvent", "NodeFinished", "NodeStarted", "Piece", "TurnFinished", "TurnStarted", "Waiting"]


class TurnStarted(NamedTuple):
    """The entry node opened a turn. ``globals`` are all ``sys.*`` and ``env.*`` values at its start."""

    globals: dict[str, JsonValue]
    inputs: dict[str, Any]
    seed: int


class NodeStarted(NamedTuple):
    """A node begins its work. ``created_at`` is epoch seconds."""

    node: NodeId
    created_at: float


class Delta(NamedTuple):
    """A piece of a model's answer, from a node that streams into a Message.

    ``mark`` is ``start`` or ``end`` at the border of a thinking section (``text`` is then ``""``).
    """

    node: NodeId
    text: str
    mark: Literal["", "start", "end"] = ""


class Piece(NamedTuple):
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


EngineEvent: TypeAlias = TurnStarted | NodeStarted | Delta | Piece | NodeFinished | Waiting | TurnFinished
