"""Values that are set before a turn is run again: whether they can be, and what they change in the stored state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from msgspec import Struct

from ragflow_lg.base.errors import CheckpointError, ComponentError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import JsonValue, write_path
from ragflow_lg.component.plan import ERROR, NEXT, Plan
from ragflow_lg.component.state import TurnRequest, merge_outputs, output_patch
from ragflow_lg.dsl.variable_references import Reference, parse_reference

__all__ = ["Change", "changed_channels", "near_names", "read_changes"]

_REQUESTED = frozenset(
    {f"sys.{key}" for key in TurnRequest.__annotations__ if key not in ("earlier", "inputs", "message_id", "payload")}
)
"""Globals that the entry node takes from the request."""

_WORKED_OUT = frozenset({"sys.conversation_turns", "sys.date", "sys.history"})
"""Globals that the entry node sets anew."""


class Change(Struct, frozen=True):
    """One value. ``node`` is ``""`` for a global, whose name is ``key`` then; ``request`` for one of the request."""

    node: str
    key: str
    path: tuple[str, ...]
    value: JsonValue
    request: str = ""


def read_changes(
    plan: Plan, node: NodeId, changes: Mapping[str, JsonValue], values: Mapping[str, Any]
) -> tuple[Change, ...]:
    """Read what is to be set before ``node`` runs again; ``values`` are the channels of the canvas as they are stored.

    Raises:
        CheckpointError: if a name means nothing, or the value would be overwritten before anybody reads it.
    """
    return tuple(_read(plan, node, name, value, values) for name, value in changes.items())


def _read(plan: Plan, node: NodeId, name: str, value: JsonValue, values: Mapping[str, Any]) -> Change:
    reference = parse_reference(name)
    if reference is None:
        raise CheckpointError(f"{name!r} is no variable: write sys.name, env.name or component@output.")
    if reference.kind == "output":
        return _output(plan, node, reference, value, values.get("outputs", {}))
    declared = {**plan.globals, **values.get("globals", {})}
    parts = reference.key.split(".")
    names = (".".join(parts[:end]) for end in range(len(parts), 1, -1))
    key = next((name for name in names if name in declared), "")
    if not key:
        hint = near_names(reference.key, declared) or f"It has {', '.join(declared)}."
        raise CheckpointError(f"The canvas has no variable {reference.key!r}. {hint}")
    path = tuple(parts[key.count(".") + 1 :])
    if node != plan.entry:
        return Change("", key, path, value)
    if key in _WORKED_OUT:
        raise CheckpointError(
            f"{key!r} cannot be set: {node!r} opens the turn and works it out anew. Run again from a node behind it."
        )
    if key in _REQUESTED and path:
        raise CheckpointError(f"{node!r} takes {key!r} from the request: set all of it, not a part.")
    return Change("", key, path, value, key.removeprefix("sys.") if key in _REQUESTED else "")


def _output(plan: Plan, node: NodeId, reference: Reference, value: JsonValue, stored: Mapping[str, Any]) -> Change:
    owner = NodeId(reference.node)
    if owner not in plan.nodes:
        raise CheckpointError(f"The canvas has no node {reference.node!r}. {near_names(owner, plan.nodes)}".rstrip())
    held = plan.nodes[owner]
    names = held.spec.output_names(held.params)
    known = tuple(dict.fromkeys([*held.outputs, *(names or ()), *stored.get(owner, {})]))
    if names is not None and reference.key not in (*known, ERROR, NEXT):
        hint = near_names(reference.key, known) or f"Its outputs: {', '.join(known) or 'none'}."
        raise CheckpointError(f"{owner!r} has no output {reference.key!r}. {hint}")
    if node == plan.entry:
        raise CheckpointError(
            f"{reference.text!r} cannot be set: {node!r} opens the turn, and all outputs are empty then. "
            "Run again from a node behind it."
        )
    if owner == node:
        raise CheckpointError(
            f"{reference.text!r} cannot be set: {node!r} runs again and gives it anew. "
            "Set what it reads, or run again from a node behind it."
        )
    return Change(reference.node, reference.key, reference.path, value)


def changed_channels(values: Mapping[str, Any], changes: Iterable[Change], *, is_root: bool) -> dict[str, Any]:
    """Give the channels of one level that differ once the values have been set.

    What is no variable of the level is left to the levels around it; the canvas itself takes everything.

    Raises:
        CheckpointError: if a path leads through a value that is no map.
    """
    changed: dict[str, Any] = {}
    for change in changes:
        if change.request:
            if is_root:
                changed[change.request] = change.value
        elif not change.node:
            held = changed.get("globals", values.get("globals", {}))
            if is_root or change.key in held:
                changed["globals"] = {**held, change.key: _written(held.get(change.key), change)}
        else:
            outputs = changed.get("outputs", values.get("outputs", {}))
            if is_root or change.node in outputs:
                stored = outputs.get(change.node, {}).get(change.key)
                patch = {change.node: {change.key: _written(stored, change)}}
                changed["outputs"] = merge_outputs(outputs, output_patch(patch=patch))
    return changed


def _written(stored: JsonValue, change: Change) -> JsonValue:
    try:
        return write_path(stored, change.path, change.value)
    except ComponentError as error:
        raise CheckpointError(str(error)) from None


def near_names(name: str, known: Collection[str]) -> str:
    """Ask for names that are nearly the same, if there are any.

    >>> near_names("LLM:Ask", ["LLM:Task", "Message:Out"])
    'Did you mean LLM:Task?'
    """
    near = get_close_matches(name, list(known), n=2)
    return f"Did you mean {' or '.join(near)}?" if near else ""
