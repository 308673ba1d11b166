"""The values of a stored step, by the names that references use, and how they differ from the step before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.dsl.redacted_view import RedactedView
from ragflow_lg.runs.stored_steps import CheckpointInfo, StoredSteps

MAX_VARIABLES = 1_000
"""Maximum number of variables in a view."""

MAX_VALUE_CHARS = 20_000
MAX_TOTAL_CHARS = 1_000_000
"""Maximum length of all values in a view; those that do not fit are only named."""

ChangeKind: TypeAlias = Literal["added", "changed", "removed", "same"]


class Moment(Struct, frozen=True):
    """A stored step, its values, and those of the step before it in the same canvas or region."""

    info: CheckpointInfo
    values: Mapping[str, Any]
    previous: str
    """The checkpoint before, or ``""``."""
    previous_values: Mapping[str, Any]


class ShownVariable(Struct, frozen=True):
    """A variable as it may be shown: without secrets, and cut if it is long."""

    name: str
    value: Any
    is_whole: bool
    """Whether ``value`` is the stored value."""
    change: ChangeKind
    before: Any = None
    """The value before, if it has changed or was removed."""


async def read_moment(steps: StoredSteps, checkpoint: str) -> Moment:
    """Return the step with this checkpoint id or a unique prefix of it.

    Raises:
        CheckpointError: if there is no such checkpoint.
    """
    namespace, id_ = await steps.find_place(checkpoint)
    info, snapshot = await steps.info(namespace, id_), await steps.snapshot(namespace, id_)
    if info is None or snapshot is None:
        raise CheckpointError(f"The checkpoint {checkpoint!r} has been deleted.")
    async for _, previous in steps.places(namespace, before=id_):
        before = await steps.snapshot(namespace, previous)
        return Moment(info, snapshot.values, previous, before.values if before is not None else {})
    return Moment(info, snapshot.values, "", {})


def list_variables(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables in a state: globals, then outputs as ``node@output``.

    >>> list_variables({"globals": {"sys.query": "Hi"}, "outputs": {"LLM:0": {"content": "Hello"}}})
    {'sys.query': 'Hi', 'LLM:0@content': 'Hello'}
    """
    globals_: Mapping[str, Any] = values.get("globals") or {}
    outputs: Mapping[str, Any] = values.get("outputs") or {}
    return {
        **globals_,
        **{
            f"{node}@{name}": value
            for node, entries in outputs.items()
            if isinstance(entries, Mapping)
            for name, value in cast("Mapping[str, Any]", entries).items()
        },
    }


def show_variables(moment: Moment, view: RedactedView) -> tuple[list[ShownVariable], int]:
    """Return the variables of a step, changed ones first, and how many were left out. It may take a while.

    Variables that the step before had and this one lacks are included as ``removed``.
    """
    after, before = list_variables(moment.values), list_variables(moment.previous_values)
    rows = sorted(_compare(before, after), key=lambda row: row[1] == "same")
    shown: list[ShownVariable] = []
    rest = MAX_TOTAL_CHARS
    for name, change in rows[:MAX_VARIABLES]:
        limit = min(MAX_VALUE_CHARS, rest)
        value, is_whole = _show(name, after.get(name), view, limit)
        old = _show(name, before[name], view, limit)[0] if change in ("changed", "removed") else None
        rest = max(0, rest - _measure(value) - _measure(old))
        shown.append(ShownVariable(view.text(name, 1_000), value, is_whole, change, old))
    return shown, max(0, len(rows) - MAX_VARIABLES)


def _compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, ChangeKind]]:
    for name, value in after.items():
        if name not in before:
            yield name, "added"
        else:
            yield name, "same" if _is_same(before[name], value) else "changed"
    for name in before:
        if name not in after:
            yield name, "removed"


def _is_same(before: Any, after: Any) -> bool:
    return type(before) is type(after) and before == after


def _show(name: str, value: Any, view: RedactedView, limit: int) -> tuple[Any, bool]:
    """Return the view of a value, and whether it is the whole value."""
    key = name.rpartition("@")[2].rpartition(".")[2]  # a name such as env.api_key hides its value
    (shown,) = cast("dict[str, Any]", view.value({key: value}, limit + len(key))).values()
    return shown, bool(shown == value)


def _measure(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(str(name)) + _measure(entry) for name, entry in cast("Mapping[Any, Any]", value).items())
    return sum(map(_measure, cast("list[Any]", value))) if isinstance(value, list) else 8
