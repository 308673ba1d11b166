"""The part of the state that every ejected graph has, and functions that read a state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias, cast

from langgraph.channels.ephemeral_value import EphemeralValue
from typing_extensions import TypedDict

from ragflow_lg.base.values import JsonValue, read_path
from ragflow_lg.component.state import TurnRecord, append, look_up, merge_messages, merge_turn
from ragflow_lg.dsl.variable_references import Reference

Outputs: TypeAlias = dict[str, Any]
"""The outputs of a node by name; empty if the node has not run in this turn."""

StateUpdate: TypeAlias = dict[str, Any]
"""What a node changes: new values by the names of the state."""


def merge(current: dict[str, Any] | None, update: Mapping[str, Any]) -> dict[str, Any]:
    """Return the current entries with the changed ones. An empty update removes all.

    >>> merge({"a": 1}, {"b": 2}), merge({"a": 1}, {})
    ({'a': 1, 'b': 2}, {})
    """
    return {**(current or {}), **update} if update else {}


class TurnState(TypedDict, total=False):
    """The request and the conversation. Generated states add the outputs of their nodes."""

    query: Annotated[Any, EphemeralValue]
    """The user's text, or a map that fills the fields of the first form."""
    inputs: Annotated[dict[str, Any], EphemeralValue]
    """The fields of the first form."""
    files: Annotated[list[Any], EphemeralValue]
    user_id: Annotated[str, EphemeralValue]
    payload: Annotated[dict[str, Any], EphemeralValue]
    """A webhook request: ``query``, ``headers`` and ``body``."""
    chat_template_kwargs: Annotated[Any, EphemeralValue]
    variables: Annotated[dict[str, Any], merge]
    """The variables ``sys.*`` and ``env.*``, which last as long as the conversation."""
    history: Annotated[list[Any], append]
    """``[role, payload]`` pairs of all turns; the payload of an assistant is a map of outputs."""
    messages: Annotated[list[Any], merge_messages]
    """The conversation as maps with ``type``, ``content`` and ``id``."""
    turn: Annotated[TurnRecord, merge_turn]
    """The record of this turn: its seed, the sources that answers may cite, the files of the request."""


def output(state: Mapping[str, Any], node: str, name: str, *path: str, default: JsonValue = "") -> Any:
    """Return an output of a node, or the part of it at a path; ``default`` if the node has not run in this turn.

    >>> output({"search": {"json": [{"title": "A"}]}}, "search", "json", "0", "title")
    'A'
    """
    outputs = cast("Mapping[str, Any]", state.get(node) or {})
    value = outputs.get(name, default)
    return read_path(value, path) if path else value


def variable(state: Mapping[str, Any], name: str) -> Any:
    """Return a variable by its full name, or a part of it: ``sys.query``, ``env.order.size``.

    >>> variable({"variables": {"env.order": {"size": 2}}}, "env.order.size")
    2
    """
    return look_up(Reference("global", name, name), state.get("variables") or {}, {})
