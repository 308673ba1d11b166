"""The parts of values that this process has encoded, so that unchanged ones are not encoded and hashed again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

REMEMBERED_PARTS = 4096
REMEMBERED_PART_BYTES = 16 * 1024 * 1024
"""The JSON of the parts that are kept. The parts themselves take several times as much memory."""

REMEMBERED_MAPS = 64
"""How many maps are remembered, over all threads. A run needs one or two at a time."""

_MARKS = (b"\x01", b"\x03")
"""A text with one of these bytes refers to parts that are stored as well; see `ragflow_lg.checkpoints.values.marks`."""


class KnownParts:
    """The marks of parts. Several threads may encode values."""

    def __init__(self) -> None:
        self._lock = Lock()
        """Held while the remembered parts are changed."""
        self._parts: OrderedDict[int | str, tuple[Any, bytes, int]] = OrderedDict()
        self._bytes = 0

    def find_mark(self, value: Any) -> bytes | None:
        """Return the mark for a known part."""
        key = _part_key(value)
        known = self._parts.get(key)
        if known is None or (known[0] is not value and type(value) is not str):
            return None
        with self._lock:
            if key in self._parts:
                self._parts.move_to_end(key)
        return known[1]

    def remember_mark(self, value: Any, mark: bytes, size: int) -> None:
        """Remember the mark of a part, together with the part itself."""
        key = _part_key(value)
        with self._lock:
            self._bytes += size - self._parts.get(key, (None, b"", 0))[2]
            self._parts[key] = (value, mark, size)
            while len(self._parts) > REMEMBERED_PARTS or self._bytes > REMEMBERED_PART_BYTES:
                self._bytes -= self._parts.popitem(last=False)[1][2]


def _part_key(value: Any) -> int | str:
    """Return the key of a part. The same text is often in several values."""
    return value if type(value) is str else id(value)


class KnownEntries:
    """The entries of the map that was encoded last in each place, with their texts. Several threads may encode maps.

    A map that grows, such as the outputs of nodes, is not encoded as a whole in every step.
    """

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
