"""State values as text: what a checkpointer below is given, so that nothing it reads back can become an object.

One value is one JSON text. Parts of a kilobyte and more are *blobs*, kept once under the hash of their text; the text
around holds a mark in their place. The marks are bytes that JSON text never has, so no data looks like one.
Large maps and lists are taken apart further, into groups of entries counted from their beginning: one that has grown
by an entry at its end shares nearly all of its blobs with the one before.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

import orjson

from ragflow_lg.base.append_log import FrozenList
from ragflow_lg.base.errors import CheckpointError, ComponentError
from ragflow_lg.base.values import to_json

__all__ = ["Codec", "FindBlobs"]

BLOB_BYTES = 1024
"""A part of a value from this size on is a blob."""

SPLIT_BYTES = 4096
"""A map or list from this size on is taken apart."""

GROUP = 16
"""How many entries of a list or map, and then how many such groups, make a blob together."""

MAX_EXPANDED_BYTES = 512 * 1024 * 1024
MAX_NESTING = 64
MAX_SPLIT_DEPTH = 20
REMEMBERED_PARTS = 4096
REMEMBERED_PART_BYTES = 64 * 1024 * 1024
REMEMBERED_BLOBS = 65_536

_MARK = re.compile(rb"\x01([0-9a-f]{32})\x01")
_MARK_BYTES = 34
_NULL, _NULL_MARK = rb"\u0000", b"\x02"
"""The Redis saver strikes out this escape wherever it finds it."""
_OPTIONS = (
    orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_NON_STR_KEYS
)

FindBlobs = Callable[[Sequence[str]], Awaitable[Mapping[str, bytes]]]
"""Gives the texts of blobs by hash; what is not there is left out."""


class Codec:
    """Encodes and decodes values. It remembers parts that it has met, so that a state is not hashed again each time.

    Values must not be changed once they have been encoded; the engine's reducers never do.
    """

    def __init__(self) -> None:
        self._parts: OrderedDict[int, tuple[Any, bytes, int]] = OrderedDict()
        self._part_bytes = 0
        self._stored: OrderedDict[str, dict[str, int]] = OrderedDict()
        self._count = 0

    def encode(self, value: Any, thread: str, blobs: dict[str, bytes]) -> str:
        """Give the text of a value; add to ``blobs`` the texts, by hash, that the thread does not have yet.

        Raises:
            CheckpointError: if the value cannot be stored, or is too large to be read again.
        """
        encoding = _Encoding(self, thread, blobs)
        text = encoding.text(value)
        if encoding.size(text) > MAX_EXPANDED_BYTES:
            raise CheckpointError(f"A value of more than {MAX_EXPANDED_BYTES:,} bytes is not stored.")
        return text.replace(_NULL, _NULL_MARK).decode()

    def stored(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Remember that the thread has these blobs."""
        held = self._stored.setdefault(thread, {})
        self._stored.move_to_end(thread)
        self._count -= len(held)
        held.update(_sizes(blobs, held))
        self._count += len(held)
        while self._count > REMEMBERED_BLOBS:
            self._count -= len(self._stored.popitem(last=False)[1])

    def forget(self, thread: str) -> None:
        """Forget what the thread has."""
        self._count -= len(self._stored.pop(thread, ()))

    def sizes(self, thread: str) -> Mapping[str, int]:
        """Give the expanded sizes of the blobs that the thread has, by hash."""
        return self._stored.get(thread, {})

    def known_part(self, value: Any) -> bytes | None:
        """Give the mark of a part that has been met."""
        known = self._parts.get(id(value))
        if known is None or known[0] is not value:
            return None
        self._parts.move_to_end(id(value))
        return known[1]

    def remember_part(self, value: Any, mark: bytes, size: int) -> None:
        """Remember the mark of a part, and with it the part itself."""
        self._part_bytes += size - self._parts.get(id(value), (None, b"", 0))[2]
        self._parts[id(value)] = (value, mark, size)
        while len(self._parts) > REMEMBERED_PARTS or self._part_bytes > REMEMBERED_PART_BYTES:
            self._part_bytes -= self._parts.popitem(last=False)[1][2]

    async def decode(self, text: str, find: FindBlobs) -> Any:
        """Give the value of a text.

        Raises:
            CheckpointError: if the text is damaged, or a blob is missing.
        """
        expanded = await self._expanded(text.encode().replace(_NULL_MARK, _NULL), find)
        try:
            return orjson.loads(expanded)
        except ValueError as error:
            raise CheckpointError(f"A stored value cannot be read: {error}.") from None

    async def _expanded(self, text: bytes, find: FindBlobs) -> bytes:
        known: dict[str, bytes] = {}
        for _ in range(MAX_NESTING):
            wanted = {mark.decode() for mark in _MARK.findall(text)}
            if not wanted:
                return text
            missing = sorted(wanted - known.keys())
            if missing:
                known.update(await find(missing))
            lost = next((digest for digest in missing if digest not in known), "")
            if lost:
                raise CheckpointError(f"A stored value is incomplete: the part {lost} is missing.")
            text = _MARK.sub(lambda mark: known[mark[1].decode()], text)
            if len(text) > MAX_EXPANDED_BYTES:
                raise CheckpointError(f"A stored value is larger than {MAX_EXPANDED_BYTES:,} bytes.")
        raise CheckpointError("A stored value is nested too deeply.")


class _Encoding:
    """The encoding of one value for one thread."""

    def __init__(self, codec: Codec, thread: str, blobs: dict[str, bytes]) -> None:
        self._codec = codec
        self._stored = codec.sizes(thread)
        self._blobs = blobs
        self._own: dict[str, int] = {}

    def text(self, value: Any, depth: int = 0) -> bytes:
        """Write a map or list part by part, everything else at once."""
        if type(value) is dict:
            held = cast("dict[Any, Any]", value)
            pairs = [self._dump(str(key)) + b":" + self._part(part, depth + 1) for key, part in held.items()]
            return b"{" + self._grouped(pairs) + b"}"
        if type(value) is list:
            return b"[" + self._grouped([self._part(entry, depth + 1) for entry in cast("list[Any]", value)]) + b"]"
        return self._part(value, depth + 1)

    def size(self, text: bytes) -> int:
        """Give how long a text becomes when its marks are expanded."""
        return len(text) + sum(self._size_of(mark.decode()) - _MARK_BYTES for mark in _MARK.findall(text))

    def _size_of(self, digest: str) -> int:
        size = self._stored.get(digest)
        return size if size is not None else self._own.get(digest, 0)

    def _part(self, value: Any, depth: int) -> bytes:
        if value is None or type(value) in (bool, int, float):
            return self._dump(value)
        known = self._codec.known_part(value)
        if known is not None and self._has(known[1:-1].decode()):
            return known
        text = self._dump(value)
        if len(text) < BLOB_BYTES:
            return text
        size = len(text)
        if size >= SPLIT_BYTES and depth < MAX_SPLIT_DEPTH and type(value) in (dict, list):
            text = self.text(value, depth)
        if len(text) >= BLOB_BYTES:
            text = self._blob(text)
            self._codec.remember_part(value, text, size)
        return text

    def _grouped(self, entries: list[bytes]) -> bytes:
        """Join the entries of a list or map; full groups of them, and of such groups, become blobs."""
        parts = entries
        while len(parts) >= 2 * GROUP:
            whole = len(parts) - len(parts) % GROUP
            groups = [b",".join(parts[at : at + GROUP]) for at in range(0, whole, GROUP)]
            parts = [*(self._blob(g) if len(g) >= BLOB_BYTES else g for g in groups), *parts[whole:]]
        return b",".join(parts)

    def _has(self, digest: str) -> bool:
        return digest in self._stored or digest in self._own

    def _blob(self, text: bytes) -> bytes:
        digest = hashlib.blake2b(text, digest_size=16).hexdigest()
        if not self._has(digest):
            self._blobs[digest] = text
            self._own[digest] = self.size(text)
        return b"\x01" + digest.encode() + b"\x01"

    def _dump(self, value: Any) -> bytes:
        def sealed(part: Any) -> Any:
            if not isinstance(part, FrozenList):
                raise TypeError
            if not part.digest or not self._has(part.digest):
                text = b"[" + b",".join(self._dump(entry) for entry in part) + b"]"
                part.digest = self._blob(text)[1:-1].decode()
            return orjson.Fragment(b"\x01" + part.digest.encode() + b"\x01")

        try:
            return orjson.dumps(value, default=sealed, option=_OPTIONS)
        except (TypeError, ValueError, RecursionError):
            pass
        try:
            return orjson.dumps(to_json(value))  # what is not JSON becomes what a component's output would
        except ComponentError as error:
            raise CheckpointError(f"A value cannot be stored: {error}") from None


def _sizes(blobs: Mapping[str, bytes], held: Mapping[str, int]) -> dict[str, int]:
    """Give the expanded sizes of blobs, whose own parts are among them or held already."""
    sizes: dict[str, int] = {}

    def size(digest: str, depth: int) -> int:
        if digest in sizes or digest in held:
            return sizes[digest] if digest in sizes else held[digest]
        text = blobs.get(digest)
        if text is None or depth > MAX_NESTING:
            return 0
        inner = sum(size(mark.decode(), depth + 1) - _MARK_BYTES for mark in _MARK.findall(text))
        sizes[digest] = len(text) + inner
        return sizes[digest]

    for digest in blobs:
        size(digest, 0)
    return sizes
