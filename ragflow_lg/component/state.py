"""The state of a running canvas: the channels of the LangGraph state and their reducers.

Everything is plain JSON, so that any checkpointer can store it and Studio can show it.

- ``globals``: ``{"sys.query": …, "env.name": …}``, keys with the dot.
- ``outputs``: ``{component id: {output: value}}``, for this turn only.
- ``history``: ``[role, payload]`` pairs from all turns; an assistant entry's payload is an outputs map.
- ``messages``: the conversation as message maps; see `ragflow_lg.dsl.chat_messages`.
- ``turn``: the engine's record of the running turn; see `TurnRecord`.
- ``query``, ``inputs``, ``files``, ``user_id``, ``payload``, ``chat_template_kwargs``, ``message_id``, ``earlier``:
  the
  request, removed after the first step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, cast

from typing_extensions import TypedDict

from ragflow_lg.base.values import MAX_NAME_PARTS, JsonValue, parse_json, read_path
from ragflow_lg.dsl.variable_references import Reference
from ragflow_lg.services.references import merge_references

_REPLACE = "__replace__"
"""The key that marks an update as a replacement for a growing list. LangGraph's own mark is an object, which a saver
would have to revive."""

OPERATIONS = "__operations__"
"""The key that marks an update of ``outputs`` as operations. The compiler rejects components with this id."""


SYS_FILES = "sys.files"


class TurnRequest(TypedDict, total=False):
    """The input of a turn. All keys are optional."""

    query: Any
    """The user's text, or a map that fills Begin's fields."""
    inputs: dict[str, Any]
    """Begin's fields: ``{name: value}`` or RAGFlow's ``{name: {"value": …, "type": …}}``."""
    files: list[Any]
    user_id: str
    payload: dict[str, Any]
    """A webhook request: ``query``, ``headers``, ``body`` and ``input``."""
    chat_template_kwargs: Any
    message_id: str
    """The id of the message that contains the query, if a chat UI has set one."""
    earlier: list[list[str]]
    """``[role, text]`` pairs of earlier messages, used only if the session has no history."""


class TurnRecord(TypedDict, total=False):
    """The engine's record of one turn."""

    number: int
    """The number of the turn within the session, starting at 1."""
    seed: int
    """The seed that selects a Message's alternative."""
    inputs: dict[str, Any]
    status: str
    """``running``, ``succeeded``, ``failed`` or ``cancelled``."""
    canvas_hash: str
    """The hash of the canvas at the start of the turn."""
    regions: dict[str, str]
    """How each region of that canvas repeats (see `Plan.region_shapes`); omitted if there are no regions."""
    last: list[Any]
    """``[superstep, rank, node id]`` of the last node without a successor."""
    error: list[Any]
    """``[superstep, rank, node id, text]`` of the error that stopped the turn."""
    visits: dict[str, int]
    """How often each Message with alternatives has run."""
    settled: int
    """The number of gates after cycles that have settled because no other node can run."""
    references: dict[str, dict[str, Any]]
    """The sources that this turn's answers may cite; see `ragflow_lg.services.references`."""
    cites_last: bool
    """Whether later sources replace earlier ones with the same number."""
    files: dict[str, list[Any]]
    """The files whose texts are values, by reference: ``sys.files`` or ``NODE@FIELD``. Each is a map with its id."""
    shown: dict[str, str | None]
    """What was shown of each model's answer, if that is more than its output: the part before a default value."""
    ends: dict[str, list[Any]]
    """The last end of each Message and of each model that streams into one, which clients may learn later than the
    state: ``[place, start, seconds, inputs, data for message_end, text with tags]``."""
    usage: list[float]
    """The model usage of all nodes that have finished in this turn, as a `ragflow_lg.services.chat.Usage`."""
    usage_before: list[float]
    """The part of it from before the turn's last pause."""
    answers: dict[str, Any]
    """Answers to forms by pause id. A run that resumes after a crash submits them again."""


def replace_list(entries: list[Any]) -> dict[str, Any]:
    """Return an update that replaces an entire growing list.

    >>> read_replacement(replace_list([1]))
    [1]
    """
    return {_REPLACE: entries}


def read_replacement(update: Any) -> list[Any] | None:
    """Return the new list if an update replaces the entire list, otherwise None."""
    if not isinstance(update, Mapping) or _REPLACE not in update:
        return None
    return list(cast("Mapping[str, list[Any]]", update)[_REPLACE])


def merge(current: dict[str, JsonValue] | None, update: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the current entries, updated with the changed ones."""
    return {**(current or {}), **update}


def merge_rounds(current: dict[str, JsonValue] | None, update: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the current rounds and a new one; an empty update removes all."""
    return merge(current, update) if update else {}


def append(current: list[Any] | None, update: Any) -> list[Any]:
    """Append new entries or replace the entire list; see `replace_list`."""
    whole = read_replacement(update)
    return [*(current or ()), *update] if whole is None else whole


def merge_messages(current: list[Any] | None, update: Any) -> list[Any]:
    """Append new messages; a message with an existing id replaces the old one at the same position."""
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
    """Replace entire entries. With `output_patch`, also remove entries or change single outputs."""
    if OPERATIONS not in update:
        return {**(current or {}), **update}
    operations = update[OPERATIONS]
    merged: dict[str, Any] = {} if operations.get("clear") else dict(current or {})
    for node in operations.get("remove", ()):
        merged.pop(node, None)
    for node, outputs in operations.get("patch", {}).items():
        merged[node] = {**merged.get(node, {}), **outputs}
    merged.update(operations.get("set", {}))
    return merged


def output_patch(
    *,
    clear: bool = False,
    remove: Collection[str] = (),
    set: Mapping[str, Any] | None = None,
    patch: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Build an update of ``outputs``.

    The order is: ``clear`` all, ``remove`` entries, change outputs of ``patch``, replace entries of ``set``.
    """
    if not clear and not remove and not patch:
        return dict(set or {})
    return {OPERATIONS: {"clear": clear, "remove": [*remove], "set": dict(set or {}), "patch": dict(patch or {})}}


def join_outputs(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Combine two updates of ``outputs`` into one; the second overrides the first."""
    a, b = _operations(first), _operations(second)
    gone = b["remove"]
    kept, patch = _without(a["set"], gone), _without(a["patch"], gone)
    for node, outputs in b["patch"].items():
        entries = kept if node in kept else patch
        entries[node] = {**entries.get(node, {}), **outputs}
    return output_patch(
        clear=a["clear"], remove=dict.fromkeys([*a["remove"], *gone]), set={**kept, **b["set"]}, patch=patch
    )


def _operations(update: Mapping[str, Any]) -> Mapping[str, Any]:
    return update.get(OPERATIONS) or {"clear": False, "remove": [], "set": update, "patch": {}}


def _without(entries: Mapping[str, Any], nodes: Collection[str]) -> dict[str, Any]:
    return {node: entry for node, entry in entries.items() if node not in nodes}


_TURN_MAPS = ("visits", "shown", "ends", "files", "answers")
"""The parts of a turn's record whose entries are kept until they are replaced."""


def merge_turn(current: TurnRecord | None, update: TurnRecord) -> TurnRecord:
    """Replace the record when a new turn starts (``number`` is set); otherwise keep the latest value of each field."""
    if "number" in update or not current:
        return update
    known, changed = cast("dict[str, Any]", current), cast("dict[str, Any]", update)
    maps = {name: {**known.get(name, {}), **changed[name]} for name in _TURN_MAPS if name in changed}
    merged = cast("TurnRecord", {**known, **changed, **maps})
    if "last" in update and "last" in current:
        merged["last"] = max(current["last"], update["last"])
    if "error" in update and "error" in current:
        merged["error"] = max(current["error"], update["error"])
    if "references" in update:
        both = (current.get("references", {}), update["references"])
        merged["references"] = merge_references(*(both[::-1] if "cites_last" in current else both))
    if "usage" in update and "usage" in current:
        merged["usage"] = [before + more for before, more in zip(current["usage"], update["usage"], strict=True)]
    return merged


class RegionState(TypedDict, total=False):
    """The channels for one entry into a region. Outer values are read from the enclosing state and never copied.

    ``outputs`` and ``globals`` contain only what the body has written.
    """

    outputs: Annotated[dict[str, Any], merge_outputs]
    globals: Annotated[dict[str, Any], merge]
    turn: Annotated[TurnRecord, merge_turn]
    scope: Annotated[ScopeRecord, merge]


class ParallelState(RegionState, total=False):
    """The channels for an entry into a region with parallel rounds."""

    rounds: Annotated[dict[str, Any], merge_rounds]
    """The values from each round of the current wave for each declared output, by round number."""


class ScopeRecord(TypedDict, total=False):
    """The engine's record of one entry into a region."""

    round: int
    """The current round, starting at 0."""
    exit: bool
    """Whether an ExitLoop has been reached in this round."""
    leave: list[str]
    """Nodes outside the region to which its body has jumped."""
    failure: str
    """The reason why the region cannot continue."""
    collected: dict[str, list[Any]]
    """The values collected so far for each declared output."""
    items: list[Any]
    """The items, stored only if they could change while the region runs."""
    sent: int
    """The number of concurrent rounds that have been scheduled."""
    began: list[float]
    """The time of entry: wall clock and monotonic clock, in seconds."""
    settled: int
    """The number of gates after cycles that have settled in this round because no other node can run."""


class CanvasState(TypedDict, total=False):
    """The channels that every canvas has; the compiler adds one gate for each join."""

    globals: Annotated[dict[str, Any], merge]
    outputs: Annotated[dict[str, Any], merge_outputs]
    history: Annotated[list[Any], append]
    messages: Annotated[list[Any], merge_messages]
    turn: Annotated[TurnRecord, merge_turn]


_REDUCERS: Mapping[str, Callable[[Any, Any], Any]] = {
    "globals": merge,
    "outputs": merge_outputs,
    "turn": merge_turn,
    "scope": merge,
}


def updated_state(state: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    """Return what nodes read of a state after the update of one of them."""
    changed = {key: reduce(state.get(key), update[key]) for key, reduce in _REDUCERS.items() if key in update}
    return {**state, **changed}


def join_updates(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Combine two updates of a state into one. What remains are updates of gates: a reset one forgets the first."""
    joined = {**first, **second}
    for key in first.keys() & second.keys():
        if key == "outputs":
            joined[key] = join_outputs(first[key], second[key])
        elif "" not in second[key]:
            joined[key] = _REDUCERS.get(key, merge)(first[key], second[key])
    return joined


def place_of(state: Mapping[str, Any]) -> str:
    """Return the rounds of the regions around a node, as in `ragflow_lg.component.events.NodeStarted`."""
    return ".".join(map(str, state.get("place", ())))


def look_up(
    reference: Reference,
    globals_: Mapping[str, JsonValue],
    outputs: Mapping[str, Any],
    declared: Collection[str] = (),
    parse: Callable[[str], JsonValue] = parse_json,
) -> JsonValue:
    """Return the value of a reference, and None if the path does not exist; ``parse`` parses text along the path.

    If nothing was stored, the value is None for an output that the canvas has ``declared``, and otherwise ``""``.

    A global is looked up by its full name first, and then by its longest prefix that is a name.
    """
    if reference.kind == "output":
        value = outputs.get(reference.node, {}).get(reference.key, None if reference.key in declared else "")
        return read_path(value, reference.path, parse) if reference.path else value
    key = reference.key
    if key in globals_:
        return globals_[key]
    parts = key.split(".")
    for end in range(min(len(parts) - 1, MAX_NAME_PARTS), 1, -1):
        name = ".".join(parts[:end])
        if name in globals_:
            return read_path(globals_[name], parts[end:], parse)
    return ""
