"""The texts of small entries of maps, so that a map that grows is not encoded as a whole in every step.

The outputs of nodes are such a map: each step adds or replaces an entry, and keeps the values of all others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

REMEMBERED_MAPS = 64
"""How many maps are remembered, over all threads. A run needs one or two at a time."""

_MARKS = (b"\x01", b"\x03")
"""A text with one of these bytes refers to parts that must be stored as well; see `ragflow_lg.checkpoints.codec`."""


class KnownEntries:
    """The entries of the map that was encoded last in each place, with their texts. Several threads may encode maps."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._maps: OrderedDict[object, Mapping[Any, tuple[Any, bytes]]] = OrderedDict()

    def encode(self, place: object, value: Mapping[Any, Any], encode: Callable[[Any, Any], bytes]) -> list[bytes]:
        """Return the text of each entry of a map: those that the last map of the place had are not encoded again."""
        known = self._maps.get(place, {})
        entries: dict[Any, tuple[Any, bytes]] = {}
        texts: list[bytes] = []
        for key, part in value.items():
            entry = known.get(key)
            if entry is None or entry[0] is not part or type(key) is not str:
                text = encode(key, part)
                if any(mark in text for mark in _MARKS):
                    texts.append(text)
                    continue
                entry = part, text
            entries[key] = entry
            texts.append(entry[1])
        with self._lock:
            self._maps[place] = entries
            self._maps.move_to_end(place)
            if len(self._maps) > REMEMBERED_MAPS:
                self._maps.popitem(last=False)
        return texts
