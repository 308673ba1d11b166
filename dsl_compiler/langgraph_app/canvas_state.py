"""The state that a canvas returns as a graph, with its types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, cast

from typing_extensions import TypedDict

from ragflow_lg.base.errors import RunFailedError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import Plan


class TurnFailure(TypedDict):
    """The error that stopped a turn."""

    code: str
    """``run-failed``."""
    node: str
    """The id of the component that failed; that of Begin if the request could not be read."""
    title: str
    """The component's name in the canvas, or ``""``."""
    cause: str
    """What the component said."""


class CanvasState(TypedDict):
    """The state after a turn."""

    messages: list[dict[str, Any]]
    """The conversation: maps with ``type`` (``human``, ``ai``), ``content`` and ``id``."""
    outputs: dict[str, dict[str, Any]]
    """The outputs of each component in this turn."""
    globals: dict[str, Any]
    """``sys.*`` and ``env.*``."""
    history: list[Any]
    """``[role, payload]`` pairs."""
    turn: dict[str, Any]
    """Internal data."""
    error: NotRequired[TurnFailure]
    """The error that stopped the turn, if errors are not raised."""


def failure_of(plan: Plan, state: Any) -> TurnFailure | None:
    """Return the error that stopped the turn whose state this is, or None."""
    record: Any = cast("Mapping[str, Any]", state).get("turn") if isinstance(state, Mapping) else None
    if not isinstance(record, Mapping):
        return None
    turn = cast("Mapping[str, Any]", record)
    if turn.get("status") != "failed":
        return None
    _, _, node, cause = turn.get("error") or (0, 0, "", "")
    failed = plan.nodes.get(NodeId(node))
    title = failed.title if failed is not None else ""
    return {"code": RunFailedError.code, "node": node, "title": title, "cause": cause or "The run failed."}
