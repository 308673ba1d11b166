"""What a running canvas keeps: the channels of the LangGraph state and their reducers.

Everything in it is plain JSON, so that any checkpointer can hold it and Studio can show it.

- ``globals``: ``{"sys.query": …, "env.name": …}``, keys with the dot.
- ``outputs``: ``{component id: {output: value}}``, of this turn only.
- ``history``: ``[role, payload]`` pairs of all turns; the payload of an assistant entry is an outputs map.
- ``messages``: the conversation as message maps, see `ragflow_lg.dsl.chat_messages`.
- ``turn``: what the engine remembers of the running turn, see `TurnRecord`.
- ``query``, ``inputs``, ``files``, ``user_id``, ``payload``, ``chat_template_kwargs``, ``message_id``, ``earlier``: the
  request, gone after the first step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, cast

from typing_extensions import TypedDict

from ragflow_lg.base.values import MAX_NAME_PARTS, JsonValue, read_path
from ragflow_lg.dsl.variable_references import Reference
from ragflow_lg.services.references import merge_references

__all__ = [
    "CanvasState",
    "CollectingState",
    "ParallelState",
    "RegionState",
    "ScopeRecord",
    "TurnRecord",
    "TurnRequest",
    "append",
    "join_outputs",
    "look_up",
    "merge",
    "merge_messages",
    "merge_outputs",
    "merge_turn",
    "find_replaced_nodes",
    "output_patch",
    "read_replacement",
    "replace_list",
]

_REPLACE = "__replace__"
"""Key that marks an update of a growing list as its replacement. LangGraph's own mark is an object, which a saver
would have to revive."""

OPERATIONS = "__operations__"
"""Key that marks an update of ``outputs`` as operations. The compiler refuses a component of that id."""


class TurnRequest(TypedDict, total=False):
    """What a caller gives to start a turn. All keys are optional."""

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
    """Of the message that ``query`` came in, where a chat page gave it one."""
    earlier: list[list[str]]
    """``[role, text]`` pairs that were said before; only a session without a history takes them."""


class TurnRecord(TypedDict, total=False):
    """The engine's notes on one turn."""

    number: int
    """Counts the turns of the session from 1."""
    seed: int
    """Decides which alternative of a Message is drawn."""
    inputs: dict[str, Any]
    status: str
    """``running``, ``succeeded``, ``failed`` or ``cancelled``."""
    canvas_hash: str
    """Of the canvas with which the turn began."""
    regions: dict[str, str]
    """How each region of that canvas repeats, see `Plan.region_shapes`; left out without regions."""
    last: list[Any]
    """``[superstep, rank, node id]`` of the last node that chose no successor."""
    error: list[Any]
    """``[superstep, rank, node id, text]`` of the error that stopped the turn."""
    visits: dict[str, int]
    """How often each Message with alternatives has run."""
    settled: int
    """How many gates behind cycles have been told that nothing else can run."""
    references: dict[str, dict[str, Any]]
    """What this turn's answers may cite, see `ragflow_lg.services.references`."""
    answers: dict[str, Any]
    """Answers to forms by pause id. A run that goes on behind a crash gives them again."""


def replace_list(entries: list[Any]) -> dict[str, Any]:
    """Make an update of a growing list that replaces all of it.

    >>> replaced(replacing([1]))
    [1]
    """
    return {_REPLACE: entries}


def read_replacement(update: Any) -> list[Any] | None:
    """Give the new list if an update replaces all of it, else None."""
    if not isinstance(update, Mapping) or _REPLACE not in update:
        return None
    return list(cast("Mapping[str, list[Any]]", update)[_REPLACE])


def merge(current: dict[str, JsonValue] | None, update: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Lay the changed keys over the current ones."""
    return {**(current or {}), **update}


def append(current: list[JsonValue] | None, update: Any) -> list[JsonValue]:
    """Put new entries behind the current ones, or others in their place, see `replace_list`."""
    whole = read_replacement(update)
    return [*(current or []), *update] if whole is None else whole


def merge_messages(current: list[Any] | None, update: Any) -> list[Any]:
    """Put new messages behind the current ones; one with an id that is there takes its place."""
    whole = read_replacement(update)
    if whole is not None:
        return whole
    merged = list(current or [])
    places = {message.get("id"): at for at, message in enumerate(merged)}
    for message in update:
        if (at := places.get(message.get("id"))) is not None and message.get("id"):
            merged[at] = message
        else:
            places[message.get("id")] = len(merged)
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
    """Make an update of ``outputs``: clear all, then change the outputs in ``patch``, then replace those in ``set``."""
    if not clear and not patch:
        return dict(set or {})
    return {OPERATIONS: {"clear": clear, "set": dict(set or {}), "patch": dict(patch or {})}}


def join_outputs(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Make one update of ``outputs`` from two, the second over the first."""
    if OPERATIONS not in first and OPERATIONS not in second:
        return {**first, **second}
    a, b = _operations(first), _operations(second)
    patch = {node: {**a["patch"].get(node, {}), **b["patch"].get(node, {})} for node in {**a["patch"], **b["patch"]}}
    return output_patch(clear=a["clear"], set={**a["set"], **b["set"]}, patch=patch)


def find_replaced_nodes(update: Mapping[str, Any]) -> Collection[str]:
    """Give the nodes whose whole entry an update of ``outputs`` sets."""
    return _operations(update)["set"].keys()


def _operations(update: Mapping[str, Any]) -> Mapping[str, Any]:
    return update.get(OPERATIONS) or {"clear": False, "set": update, "patch": {}}


def merge_turn(current: TurnRecord | None, update: TurnRecord) -> TurnRecord:
    """Replace the record when a new turn opens (``number`` is given); else keep the latest of each note."""
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
    """The channels of one entry into a region. What lies outside is read from the state around it, never copied.

    ``outputs`` and ``globals`` hold only what the body has written.
    """

    outputs: Annotated[dict[str, Any], merge_outputs]
    globals: Annotated[dict[str, Any], merge]
    turn: Annotated[TurnRecord, merge_turn]
    scope: Annotated[ScopeRecord, merge]


class CollectingState(RegionState, total=False):
    """The channels of an entry into a region that gathers what its body gives."""

    ran: Annotated[dict[str, int], merge]
    """The last round in which each collected node ran."""


class ParallelState(RegionState, total=False):
    """The channels of an entry into a region whose rounds run side by side."""

    rounds: Annotated[dict[str, Any], merge]
    """What each round gave for each declared output, by the number of the round."""


class ScopeRecord(TypedDict, total=False):
    """The engine's notes on one entry into a region."""

    round: int
    """The round that runs, counted from 0."""
    exit: bool
    """Whether an ExitLoop has been reached in this round."""
    leave: list[str]
    """Nodes around the region that its body has jumped to."""
    failure: str
    """Why the region cannot go on."""
    collected: dict[str, Any]
    """What each declared output has gathered so far, as `ragflow_lg.base.append_log` keeps it."""
    items: list[Any]
    """The items, where they could change while the region runs."""
    began: list[float]
    """When it was entered: wall clock and monotonic clock, in seconds."""
    settled: int
    """How many gates behind cycles have been told that nothing else can run in this round."""


class CanvasState(TypedDict, total=False):
    """The channels that every canvas has; the compiler adds one gate for each join."""

    globals: Annotated[dict[str, Any], merge]
    outputs: Annotated[dict[str, Any], merge_outputs]
    history: Annotated[list[Any], append]
    messages: Annotated[list[Any], merge_messages]
    turn: Annotated[TurnRecord, merge_turn]


def look_up(reference: Reference, globals_: Mapping[str, JsonValue], outputs: Mapping[str, Any]) -> JsonValue:
    """Give the value that a reference means; ``""`` where nothing was put, None where a path leads nowhere.

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
