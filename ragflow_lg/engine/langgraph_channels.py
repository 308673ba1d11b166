"""What a superstep changes in the channels of a graph and in its checkpoint.

LangGraph asks every channel of a graph several times in each superstep. Here, only those are asked that were written or
read, or that can change by themselves. Everything here is beyond LangGraph's public interface, see `langgraph_loop`.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false
# Many of these names have open types, and the time of the last id is private.

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from random import getrandbits
from typing import Any
from weakref import WeakKeyDictionary

from langgraph._internal._constants import RESERVED
from langgraph._internal._typing import MISSING
from langgraph.channels.base import BaseChannel
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.channels.delta import DeltaChannel
from langgraph.channels.last_value import LastValue, LastValueAfterFinish
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.checkpoint.base import id as langgraph_ids
from langgraph.checkpoint.base import writes_sort_key
from langgraph.pregel._algo import task_path_str
from langgraph.pregel._checkpoint import LATEST_VERSION
from msgspec import Struct

_TICKS_BEFORE_1970 = 0x01B21DD213814000
"""The ticks of 100 ns between the first day of the Gregorian calendar and the beginning of the clock."""

_LASTING = (LastValue, LastValueAfterFinish, BinaryOperatorAggregate)
"""Channels that keep their value in a superstep without writes to them."""


class ChannelKinds(Struct, frozen=True):
    """What the kinds of a graph's channels tell."""

    are_plain: bool
    """Whether a checkpoint contains the value of each channel."""
    fading: frozenset[str]
    """The channels that can change in a superstep without writes to them."""
    finishing: tuple[str, ...]
    """The channels that can change at the end of a run."""


_KINDS: WeakKeyDictionary[Any, ChannelKinds] = WeakKeyDictionary()


def channel_kinds(graph: Any) -> ChannelKinds:
    """Return the kinds of a graph's channels, which are looked at once."""
    if (kinds := _KINDS.get(graph)) is None:
        specs: Mapping[str, Any] = graph.channels
        kinds = _KINDS[graph] = ChannelKinds(
            not any(isinstance(spec, DeltaChannel | UntrackedValue) for spec in specs.values()),
            frozenset(
                name for name, spec in specs.items() if type(spec) not in _LASTING and isinstance(spec, BaseChannel)
            ),
            tuple(
                name
                for name, spec in specs.items()
                if isinstance(spec, BaseChannel) and type(spec).finish is not BaseChannel.finish
            ),
        )
    return kinds


class ChannelChanges:
    """Applies the writes of supersteps."""

    __slots__ = ("_channels", "_fading", "_kinds", "_newest", "_next_version", "_triggers")

    def __init__(
        self,
        kinds: ChannelKinds,
        channels: Mapping[str, Any],
        versions: Mapping[str, Any],
        next_version: Callable[[Any, None], Any],
        triggers: Mapping[str, Sequence[str]],
    ) -> None:
        """``versions`` are those of the last checkpoint, ``triggers`` the nodes that a channel can trigger."""
        self._kinds = kinds
        self._channels = channels
        self._next_version = next_version
        self._triggers = triggers
        self._newest = max(versions.values()) if versions else None
        self._fading = [name for name in kinds.fading if channels[name].is_available()]
        """The channels that can change in the next superstep without writes to them."""

    def apply(self, tasks: Sequence[Any]) -> tuple[dict[str, Any], set[str]]:
        """Apply what the tasks of a superstep have read and written.

        Return the new versions of channels that have changed, and the channels that can trigger nodes.
        """
        channels = self._channels
        version = self._next_version(self._newest, None)
        if len(tasks) > 1:
            tasks = sorted(tasks, key=lambda task: writes_sort_key(task_path_str(task.path)))
        read = dict.fromkeys(name for task in tasks for name in task.triggers if name not in RESERVED)
        changed = dict.fromkeys((name for name in read if name in channels and channels[name].consume()), version)
        writes: dict[str, list[Any]] = {}
        for task in tasks:
            for name, value in task.writes:
                if name in channels:
                    writes.setdefault(name, []).append(value)
        written = [name for name, values in writes.items() if channels[name].update(values)]
        updated = {name for name in written if channels[name].is_available()}
        faded = [name for name in self._fading if name not in updated and channels[name].is_available()]
        faded = sorted(name for name in faded if channels[name].update(()))
        updated.update(name for name in faded if channels[name].is_available())
        changed |= dict.fromkeys((*written, *faded), version)
        if not any(name in self._triggers for name in updated):
            finished = [name for name in self._kinds.finishing if channels[name].finish()]
            changed |= dict.fromkeys(finished, version)
            updated.update(name for name in finished if channels[name].is_available())
        fading = self._kinds.fading.intersection((*self._fading, *updated))
        self._fading = [name for name in fading if channels[name].is_available()]
        if changed:
            self._newest = version
        return changed, updated


def next_id(step: int) -> str:
    """Return the id of a checkpoint as LangGraph's `uuid6` does, which makes two objects of it.

    >>> first, second = next_id(-1), next_id(0)
    >>> first < second
    True
    """
    last = langgraph_ids._last_v6_timestamp
    ticks = max(time.time_ns() // 100 + _TICKS_BEFORE_1970, (last or 0) + 1)
    langgraph_ids._last_v6_timestamp = ticks
    high, sequence = f"{ticks >> 12:012x}", 0x8000 | (step & 0x3FFF)
    return f"{high[:8]}-{high[8:]}-6{ticks & 0xFFF:03x}-{sequence:04x}-{getrandbits(48):012x}"


def next_checkpoint(
    before: Mapping[str, Any],
    channels: Mapping[str, Any],
    tasks: Sequence[Any],
    changed: Mapping[str, Any],
    updated: set[str],
    step: int,
    *,
    has_values: bool,
) -> dict[str, Any]:
    """Return the checkpoint after a superstep. It shares with the one before what has not changed."""
    versions, seen, values = before["channel_versions"], {**before["versions_seen"]}, before["channel_values"]
    for task in tasks:
        read = {name: versions[name] for name in task.triggers if name in versions}
        seen[task.name] = {**seen.get(task.name, {}), **read}
    if has_values:
        values = {**values}
        for name in changed:
            value = channels[name].checkpoint()
            if value is MISSING:
                values.pop(name, None)
            else:
                values[name] = value
    return {
        "v": LATEST_VERSION,
        "ts": datetime.now(UTC).isoformat(),  # noqa: TID251 - as LangGraph does
        "id": next_id(step),
        "channel_values": values,
        "channel_versions": {**versions, **changed},
        "versions_seen": seen,
        "updated_channels": sorted(updated),
    }
