"""Validates edited state values: a thread could not continue from a state that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec
from langgraph.errors import InvalidUpdateError
from typing_extensions import TypedDict

from ragflow_lg.component.state import CanvasState, CollectingState, ParallelState, replace_list
from ragflow_lg.dsl_compiler.langgraph_internals import OVERWRITE, RESERVED_PREFIX


class _Turn(TypedDict, total=False):
    """`ragflow_lg.component.state.TurnRecord` with the exact types of its lists."""

    number: int
    seed: int
    inputs: dict[str, Any]
    status: str
    canvas_hash: str
    regions: dict[str, str]
    last: tuple[int, int, str]
    error: tuple[int, int, str, str]
    visits: dict[str, int]
    settled: int
    references: dict[str, dict[str, Any]]
    shown: dict[str, str | None]
    answers: dict[str, Any]


_KINDS: Mapping[str, Any] = {
    "globals": dict[str, Any],
    "outputs": dict[str, dict[str, Any]],
    "history": list[tuple[str, Any]],
    "messages": list[dict[str, Any]],
    "turn": _Turn,
}
_KEYS = {key for state in (CanvasState, CollectingState, ParallelState) for key in state.__annotations__}


def validate_edit(values: Any, channels: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return an edit's writes as pairs of channel and value. An edited list replaces the stored one.

    Raises:
        InvalidUpdateError: if there is no such channel or the value is invalid for it.
    """
    edits = list(_pairs(values))
    keys = sorted(_KEYS & channels.keys() | {"scope"} & channels.keys())
    for key, value in edits:
        if key not in keys:
            raise InvalidUpdateError(f"The state has no key {key!r}; its keys are {', '.join(keys)}.")
        try:
            msgspec.convert(value, _KINDS.get(key, dict[str, Any]))
        except msgspec.ValidationError as error:
            raise InvalidUpdateError(f"The value of {key!r} is invalid: {error}.") from None
        if isinstance(value, Mapping):
            _check_reserved_keys(key, cast("Mapping[str, Any]", value))
    return [(key, replace_list(value) if isinstance(value, list) else value) for key, value in edits]


def _pairs(values: Any) -> Iterator[tuple[str, Any]]:
    parts = cast("Sequence[Any]", values if isinstance(values, list | tuple) else [values])
    for part in parts:
        if isinstance(part, Mapping):
            yield from cast("Mapping[str, Any]", part).items()
        elif isinstance(part, tuple) and len(cast("tuple[Any, ...]", part)) == 2:
            yield cast("tuple[str, Any]", part)
        elif part is not None:
            raise InvalidUpdateError(f"An edit should be a map of state keys, not {type(part).__name__}.")


def _check_reserved_keys(key: str, value: Mapping[str, Any]) -> None:
    if reserved := [name for name in value if name.startswith(RESERVED_PREFIX)]:
        raise InvalidUpdateError(f"{reserved[0]!r} in {key!r} is reserved.")
    if value.get("type") == OVERWRITE:
        raise InvalidUpdateError(f"{OVERWRITE!r} in {key!r} is reserved.")
