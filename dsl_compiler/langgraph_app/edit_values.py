"""What somebody puts into a stored state, checked: a state that cannot be read again would end its thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec
from langgraph.errors import InvalidUpdateError
from typing_extensions import TypedDict

from ragflow_lg.component.state import CanvasState, CollectingState, ParallelState, replace_list

__all__ = ["edit_values"]

_RESERVED = "__"
_OVERWRITE = "__overwrite__"
"""LangGraph takes a map with this as its key, or its ``type``, for the whole channel."""


class _Turn(TypedDict, total=False):
    """As `ragflow_lg.component.state.TurnRecord`, with the shape of its lists."""

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
    answers: dict[str, Any]


_KINDS: Mapping[str, Any] = {
    "globals": dict[str, Any],
    "outputs": dict[str, dict[str, Any]],
    "history": list[tuple[str, Any]],
    "messages": list[dict[str, Any]],
    "turn": _Turn,
}
_KEYS = {key for state in (CanvasState, CollectingState, ParallelState) for key in state.__annotations__}


def edit_values(given: Any, channels: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Give the edited channels of a graph. Who edits a list has it whole, so it is no addition.

    Raises:
        InvalidUpdateError: if there is no such channel, or the value is none for it.
    """
    edits = list(_pairs(given))
    keys = sorted(_KEYS & channels.keys() | {"scope"} & channels.keys())
    for key, value in edits:
        if key not in keys:
            raise InvalidUpdateError(f"The state has no {key!r}: edit {', '.join(keys)}.")
        try:
            msgspec.convert(value, _KINDS.get(key, dict[str, Any]))
        except msgspec.ValidationError as error:
            raise InvalidUpdateError(f"The state cannot have this for {key!r}: {error}.") from None
        if isinstance(value, Mapping):
            _refuse_marks(key, cast("Mapping[str, Any]", value))
    return [(key, replace_list(value) if isinstance(value, list) else value) for key, value in edits]


def _pairs(given: Any) -> Iterator[tuple[str, Any]]:
    parts = cast("Sequence[Any]", given if isinstance(given, list | tuple) else [given])
    for part in parts:
        if isinstance(part, Mapping):
            yield from cast("Mapping[str, Any]", part).items()
        elif isinstance(part, tuple) and len(cast("tuple[Any, ...]", part)) == 2:
            yield cast("tuple[str, Any]", part)
        elif part is not None:
            raise InvalidUpdateError(f"An edit should be a map of state keys, not {type(part).__name__}.")


def _refuse_marks(key: str, value: Mapping[str, Any]) -> None:
    if marks := [name for name in value if name.startswith(_RESERVED)]:
        raise InvalidUpdateError(f"{marks[0]!r} in {key!r} is reserved.")
    if value.get("type") == _OVERWRITE:
        raise InvalidUpdateError(f"{_OVERWRITE!r} in {key!r} is reserved.")
