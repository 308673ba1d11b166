"""Versions of channels: short texts, and the maps of them, in groups.

LangGraph compares versions as texts, and every checkpoint repeats those of all channels. Its own have 49 characters.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import islice
from random import getrandbits
from typing import Any, TypeAlias

import msgspec

Version: TypeAlias = str | int | float

_DIGITS = 8
_MANY = "a"
"""Marks numbers with more digits. It is greater than any digit."""
_GROUP = 16
"""Channels or nodes per group. The encoder stores a group that has not changed only once."""
MAX_PLACES = 256
"""For how many threads and namespaces the groups are remembered."""
_VERSIONS, _SEEN = "__versions ", "__seen "


def next_version(current: Version | None) -> str:
    """Return the version after the greatest one so far, which LangGraph's savers may have made.

    The random part distinguishes steps that follow the same one.

    >>> next_version("00000000000000000000000000000012.0.3745401188473625").partition(".")[0]
    '00000013'
    """
    number = int(str(current or 0).partition(".")[0].removeprefix(_MANY)) + 1
    text = f"{number:0{_DIGITS}}" if number < 10**_DIGITS else f"{_MANY}{number:0{4 * _DIGITS}}"
    return f"{text}.{getrandbits(24):06x}"


class VersionGroups:
    """Groups of the versions in checkpoints. One that is the same as in the checkpoint before is the same object."""

    def __init__(self) -> None:
        self._last: OrderedDict[tuple[str, str], dict[str, dict[str, Any]]] = OrderedDict()
        """The groups of the last checkpoint, by thread and namespace."""

    def of(self, checkpoint: Mapping[str, Any], thread: str, namespace: str) -> dict[str, dict[str, Any]]:
        """Return the versions in a checkpoint as a map of groups, which do not change when the checkpoint does.

        It is empty if there are few channels: then, they are stored as they are.
        """
        if len(checkpoint["channel_versions"]) < 2 * _GROUP:
            return {}
        last = self._last.pop((thread, namespace), {})
        groups: dict[str, dict[str, Any]] = {}
        for name, group in _groups(_VERSIONS, checkpoint["channel_versions"]):
            known = last.get(name, group)
            groups[name] = known if known == group else group
        for name, group in _groups(_SEEN, checkpoint["versions_seen"]):
            known = last.get(name, {})
            groups[name] = known if known == group else {node: dict(seen) for node, seen in group.items()}
        self._last[thread, namespace] = groups
        if len(self._last) > MAX_PLACES:
            self._last.popitem(last=False)
        return groups


def is_group(key: str) -> bool:
    """Return whether a key is reserved for a group of versions."""
    return key.startswith((_VERSIONS, _SEEN))


def _groups(name: str, entries: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    rest, number = iter(entries.items()), 0
    while group := dict(islice(rest, _GROUP)):
        yield f"{name}{number}", group
        number += 1


def take_versions(groups: dict[str, Any]) -> tuple[dict[str, Version], dict[str, dict[str, Version]]]:
    """Return the versions of channels and those that nodes have seen, and remove their groups from a map.

    Raises:
        ValueError: if a group is damaged.
    """
    versions: dict[str, Version] = {}
    seen: dict[str, dict[str, Version]] = {}
    for key in [key for key in groups if is_group(key)]:
        group = groups.pop(key)
        if key.startswith(_VERSIONS):
            versions.update(msgspec.convert(group, dict[str, Version]))
        else:
            seen.update(msgspec.convert(group, dict[str, dict[str, Version]]))
    return versions, seen
