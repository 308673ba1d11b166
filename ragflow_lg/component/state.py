"""The state of a running canvas: the channels of the LangGraph state and their reducers.

Everything is plain JSON, so that any checkpointer can store it and Studio can show it.

- ``globals``: ``{"sys.query": …, "env.name": …}``, keys with the dot.
- ``outputs``: ``{component id: {output: value}}``, of this turn only.
- ``history``: ``[role, payload]`` pairs of all turns; the payload of an assistant entry is an outputs map.
- ``messages``: the conversation as message maps, see `ragflow_lg.dsl.chat_messages`.
- ``turn``: the engine's record of the running turn, see `TurnRecord`.
- ``query``, ``inputs``, ``files``, ``user_id``, ``payload``, ``chat_template_kwargs``, ``message_id``, ``earlier``:
  the
  request, removed after the first step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, cast

from typing_extensions import TypedDict

from ragflow_lg.base.values import MAX_NAME_PARTS, JsonValue, read_path
from ragflow_lg.dsl.variable_references import Reference
from ragflow_lg.services.references import merge_references

_REPLACE = "__replace__"
"""Key that marks an update of a growing list as its replacement. LangGraph's own mark is an object, which a saver
would have to revive."""

OPERATIONS = "__operations__"
"""Key that marks an update of ``outputs`` as operations. The compiler rejects a component with this id."""


class TurnRequest(TypedDict, total=False):
    """The input of a turn. All keys are optional."""

    query: Any
    """The user's text, or a map that fills Begin's fields."""
    inputs: dict[str, Any]
    """Begin's fields: ``{name: value}`` or RAGFlow's ``{name: {"value": …, "type": …}}``."""
    files: list[Any]
    user_id: str
    payload: dict[str, Any]
    """A webhook's request: ``query``, ``headers``, ``body``, ``input``."""
    chat_template_kwargs: Any
    message_id: str
    """Id of the message with the query, if a chat page has set one."""
    earlier: list[list[str]]
    """``[role, text]`` pairs of previous messages; only a session without a history uses them."""


class TurnRecord(TypedDict, total=False):
    """The engine's record of one turn."""

    number: int
    """Counts the turns of the session from 1."""
    seed: int
    """Selects the alternative of a Message."""
    inputs: dict[str, Any]
    status: str
    """``running``, ``succeeded``, ``failed`` or ``cancelled``."""
    canvas_hash: str
    """Hash of the canvas at the start of the turn."""
    regions: dict[str, str]
    """How each region of that canvas repeats, see `Plan.region_shapes`; omitted without regions."""
    last: list[Any]
    """``[superstep, rank, node id]`` of the last node without a successor."""
    error: list[Any]
    """``[superstep, rank, node id, text]`` of the error that stopped the turn."""
    visits: dict[str, int]
    """The number of runs of each Message with alternatives."""
    settled: int
    """The number of gates after cycles that have settled, because nothing else can run."""
    references: dict[str, dict[str, Any]]
    """The sources that this turn's answers may cite, see `ragflow_lg.services.references`."""
    answers: dict[str, Any]
    """Answers to forms by pause id. A run that resumes after a crash submits them again."""


def replace_list(entries: list[Any]) -> dict[str, Any]:
    """Return an update that replaces the whole of a growing list.

    >>> read_replacement(replace_list([1]))
    [1]
    """
    return {_REPLACE: entries}


def read_replacement(update: Any) -> list[Any] | None:
    """Return the new list if an update replaces the whole list, else None."""
    if not isinstance(update, Mapping) or _REPLACE not in update:
        return None
    return list(cast("Mapping[str, list[Any]]", update)[_REPLACE])


def merge(current: dict[str, JsonValue] | None, update: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the current entries, updated with the changed ones."""
    return {**(current or {}), **update}


def append(current: list[JsonValue] | None, update: Any) -> list[JsonValue]:
    """Append new entries, or replace the whole list, see `replace_list`."""
    whole = read_replacement(update)
    return [*(current or []), *update] if whole is None else whole


def merge_messages(current: list[Any] | None, update: Any) -> list[Any]:
    """Append new messages; a message with an existing id replaces the old one in its place."""
    whole = read_replacement(update)
    if whole is not None:
        return whole
    merged = list(current or [])
    positions = {message.get("id"): at for at, message in enumerate(merged)}
    for message in update:
        if (at := positions.get(message.get("id"))) is not None and message.get("id"):
            merged[at] = message
        else:
            positions[message.get("id")] = len(merged)
            merged.append(message)
    return merged


def merge_outputs(current: dict[str, Any] | None, update: Mapping[str, Any]) -> dict[str, Any]:
    """Replace whole entries; with `output_patch` also clear all, or change single outputs of an entry."""
    if OPERATIONS not in update:
        return {**(current or {}), **update}
    operations = update[OPERATIONS]
    merged: dict[str, Any] = {} if operations.get("clear") else dict(current or {})
    for node, outputs in operations.get("patch", {}).items():
        merged[node] = {**merged.get(node, {}), **outputs}
    merged.update(operations.get("set", {}))
    return merged


def output_patch(
    *,
    clear: bool = False,
    set: Mapping[str, Any] | None = None,
    patch: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Build an update of ``outputs``.

    The order is: ``clear`` all, change outputs of ``patch``, replace entries of ``set``.
    """
    if not clear and not patch:
        return dict(set or {})
    return {OPERATIONS: {"clear": clear, "set": dict(set or {}), "patch": dict(patch or {})}}


def join_outputs(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Combine two updates of ``outputs`` into one; the second overrides the first."""
    if OPERATIONS not in first and OPERATIONS not in second:
        return {**first, **second}
    a, b = _operations(first), _operations(second)
    patch = {node: {**a["patch"].get(node, {}), **b["patch"].get(node, {})} for node in {**a["patch"], **b["patch"]}}
    return output_patch(clear=a["clear"], set={**a["set"], **b["set"]}, patch=patch)


def find_replaced_nodes(update: Mapping[str, Any]) -> Collection[str]:
    """Return the nodes whose whole entry an update of ``outputs`` replaces."""
    return _operations(update)["set"].keys()


def _operations(update: Mapping[str, Any]) -> Mapping[str, Any]:
    return update.get(OPERATIONS) or {"clear": False, "set": update, "patch": {}}


def merge_turn(current: TurnRecord | None, update: TurnRecord) -> TurnRecord:
    """Replace the record when a new turn opens (``number`` is set); else keep the latest value of each field."""
    if "number" in update or not current:
        return update
    merged: TurnRecord = {**current, **update}
    if "last" in update and "last" in current:
        merged["last"] = max(current["last"], update["last"])
    if "error" in update and "error" in current:
        merged["error"] = max(current["error"], update["error"])
    if "visits" in update:
        merged["visits"] = {**current.get("visits", {}), **update["visits"]}
    if "references" in update:
        merged["references"] = merge_references(current.get("references", {}), update["references"])
    if "answers" in update:
        merged["answers"] = {**current.get("answers", {}), **update["answers"]}
    return merged


class RegionState(TypedDict, total=False):
    """The channels of one entry into a region. Outer values are read from the enclosing state, never copied.

    ``outputs`` and ``globals`` contain only what the body has written.
    """

    outputs: Annotated[dict[str, Any], merge_outputs]
    globals: Annotated[dict[str, Any], merge]
    turn: Annotated[TurnRecord, merge_turn]
    scope: Annotated[ScopeRecord, merge]


class CollectingState(RegionState, total=False):
    """The channels of an entry into a region that collects values of its body."""

    ran: Annotated[dict[str, int], merge]
    """The last round in which each collected node ran."""


class ParallelState(RegionState, total=False):
    """The channels of an entry into a region with parallel rounds."""

    rounds: Annotated[dict[str, Any], merge]
    """The values of each round for each declared output, by the number of the round."""


class ScopeRecord(TypedDict, total=False):
    """The engine's record of one entry into a region."""

    round: int
    """The current round, counted from 0."""
    exit: bool
    """Whether an ExitLoop has been reached in this round."""
    leave: list[str]
    """Nodes outside the region to which its body has jumped."""
    failure: str
    """Why the region cannot continue."""
    collected: dict[str, Any]
    """The values collected so far for each declared output, as a `ragflow_lg.base.append_log.AppendLog`."""
    items: list[Any]
    """The items, if they could change while the region runs."""
    began: list[float]
    """Time of entry: wall clock and monotonic clock, in seconds."""
    settled: int
    """The number of gates after cycles that have settled in this round, because nothing else can run."""


class CanvasState(TypedDict, total=False):
    """The channels of every canvas; the compiler adds one gate for each join."""

    globals: Annotated[dict[str, Any], merge]
    outputs: Annotated[dict[str, Any], merge_outputs]
    history: Annotated[list[Any], append]
    messages: Annotated[list[Any], merge_messages]
    turn: Annotated[TurnRecord, merge_turn]


def look_up(reference: Reference, globals_: Mapping[str, JsonValue], outputs: Mapping[str, Any]) -> JsonValue:
    """Return the value of a reference; ``""`` if nothing was stored, None if a path leads nowhere.

    A global is looked up by its whole name first, then by the longest name that is a prefix of it.
    """
    if reference.kind == "output":
        value = outputs.get(reference.node, {}).get(reference.key, "")
        return read_path(value, reference.path) if reference.path else value
    key = reference.key
    if key in globals_:
        return globals_[key]
    parts = key.split(".")
    for end in range(min(len(parts) - 1, MAX_NAME_PARTS), 1, -1):
        name = ".".join(parts[:end])
        if name in globals_:
            return read_path(globals_[name], parts[end:])
    return ""
