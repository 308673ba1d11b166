"""Changes to stored values before a rerun: validation, and the effect on the stored state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ragflow_lg.base.errors import CheckpointError, ComponentError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import JsonValue, write_path
from ragflow_lg.component.node_names import describe_unknown_node, list_names, near_names, quote_name, with_node_id
from ragflow_lg.component.plan import ERROR, NEXT, Plan
from ragflow_lg.component.state import TurnRequest, merge_outputs, output_patch
from ragflow_lg.dsl.variable_references import Reference, parse_reference

_REQUEST_GLOBALS = frozenset(
    {f"sys.{key}" for key in TurnRequest.__annotations__ if key not in ("earlier", "inputs", "message_id", "payload")}
)
"""The globals that the entry node reads from the request."""

_COMPUTED_GLOBALS = frozenset({"sys.conversation_turns", "sys.date", "sys.history"})
"""The globals that the entry node computes."""


MAX_NAME_CHARS = 1000
"""How long the name of a changed value, with its path, may be. Finding a variable takes the square of this."""


class Change(Struct, frozen=True):
    """One new value. ``node`` is ``""`` for a global named ``key``; ``request`` is set for a value in the request."""

    node: str
    key: str
    path: tuple[str, ...]
    value: JsonValue
    request: str = ""


def read_changes(
    plan: Plan, node: NodeId, changes: Mapping[str, JsonValue], values: Mapping[str, Any]
) -> tuple[Change, ...]:
    """Read the changes to make before ``node`` runs again; ``values`` contains the canvas's stored channels.

    Raises:
        CheckpointError: if a name is unknown, or its value would be overwritten before any node reads it.
    """
    return tuple(_read_change(plan, node, name, value, values) for name, value in changes.items())


def _read_change(plan: Plan, node: NodeId, name: str, value: JsonValue, values: Mapping[str, Any]) -> Change:
    if len(name) > MAX_NAME_CHARS:
        raise CheckpointError(
            f"The name of a changed value has {len(name):,} characters; {MAX_NAME_CHARS} are possible."
        )
    reference = parse_reference(with_node_id(plan, name))
    if reference is None:
        hint = "Write sys.name, env.name or component@output."
        title = name.partition("@")[0] if "@" in name else ""
        about = describe_unknown_node(plan, title) if title else f"{quote_name(name)} is not a variable."
        raise CheckpointError(f"{about} {hint}")
    if reference.kind == "output":
        return _read_output_change(plan, node, reference, value, values.get("outputs", {}))
    declared = {**plan.globals, **values.get("globals", {})}
    parts = reference.key.split(".")
    names = (".".join(parts[:end]) for end in range(len(parts), 1, -1))
    key = next((name for name in names if name in declared), "")
    if not key:
        hint = near_names(reference.key, declared) or f"It has {list_names(declared)}."
        raise CheckpointError(f"The canvas has no variable {quote_name(reference.key)}. {hint}")
    path = tuple(parts[key.count(".") + 1 :])
    if node != plan.entry:
        return Change("", key, path, value)
    if key in _COMPUTED_GLOBALS:
        raise CheckpointError(
            f"{key!r} cannot be set: {node!r} starts the turn and computes it. Rerun from a later node."
        )
    if key in _REQUEST_GLOBALS and path:
        raise CheckpointError(f"{node!r} reads {key!r} from the request. Set the entire value, not a part of it.")
    return Change("", key, path, value, key.removeprefix("sys.") if key in _REQUEST_GLOBALS else "")


def _read_output_change(
    plan: Plan, node: NodeId, reference: Reference, value: JsonValue, stored: Mapping[str, Any]
) -> Change:
    owner = NodeId(reference.node)
    if owner not in plan.nodes:
        raise CheckpointError(describe_unknown_node(plan, owner))
    plan_node = plan.nodes[owner]
    names = plan_node.spec.output_names(plan_node.params)
    known = tuple(dict.fromkeys([*plan_node.outputs, *(names or ()), *stored.get(owner, {})]))
    if reference.key == NEXT:
        raise CheckpointError(
            f"{quote_name(reference.text)} cannot be set: {owner!r} has taken its branch, and an edit does not change "
            f"which nodes run next. Change what {owner!r} reads, and rerun from it."
        )
    if names is not None and reference.key not in (*known, ERROR):
        hint = near_names(reference.key, known) or f"Its outputs: {list_names(known)}."
        raise CheckpointError(f"{owner!r} has no output {quote_name(reference.key)}. {hint}")
    if node == plan.entry:
        raise CheckpointError(
            f"{quote_name(reference.text)} cannot be set: {node!r} starts the turn and clears all outputs. "
            "Rerun from a later node."
        )
    if owner == node:
        raise CheckpointError(
            f"{quote_name(reference.text)} cannot be set: {node!r} runs again and overwrites it. "
            "Set its inputs, or rerun from a later node."
        )
    return Change(reference.node, reference.key, reference.path, value)


def changed_channels(values: Mapping[str, Any], changes: Iterable[Change], *, is_root: bool) -> dict[str, Any]:
    """Return the channels at one level that the changes affect.

    A level accepts only its own variables; the outermost level accepts all of them.

    Raises:
        CheckpointError: if a value along the path is not a map.
    """
    changed: dict[str, Any] = {}
    for change in changes:
        if change.request:
            if is_root:
                changed[change.request] = change.value
        elif not change.node:
            variables = changed.get("globals", values.get("globals", {}))
            if is_root or change.key in variables:
                changed["globals"] = {**variables, change.key: _apply(variables.get(change.key), change)}
        else:
            outputs = changed.get("outputs", values.get("outputs", {}))
            if is_root or change.node in outputs:
                stored = outputs.get(change.node, {}).get(change.key)
                patch = {change.node: {change.key: _apply(stored, change)}}
                changed["outputs"] = merge_outputs(outputs, output_patch(patch=patch))
    return changed


def _apply(stored: JsonValue, change: Change) -> JsonValue:
    try:
        return write_path(stored, change.path, change.value)
    except ComponentError as error:
        raise CheckpointError(str(error)) from None
