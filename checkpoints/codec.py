"""State values as text: what a checkpointer below is given, so that nothing it reads back can become an object.

One value is one JSON text. Parts of a kilobyte and more are *blobs*, kept once under the hash of their text; the text
around holds a mark in their place. The marks are bytes that JSON text never has, so no data looks like one.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

import orjson

from ragflow_lg.errors import CheckpointError, ComponentError
from ragflow_lg.sealed import SealedList
from ragflow_lg.values import to_json

__all__ = ["Codec", "FindBlobs"]

BLOB_BYTES = 1024
"""A part of a value from this size on is a blob."""

MAX_EXPANDED_BYTES = 512 * 1024 * 1024
MAX_NESTING = 64
REMEMBERED_PARTS = 4096
REMEMBERED_BLOBS = 65_536

_MARK = re.compile(rb"\x01([0-9a-f]{32})\x01")
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
        self._parts: OrderedDict[int, tuple[Any, bytes]] = OrderedDict()
        self._stored: OrderedDict[str, set[str]] = OrderedDict()
        self._count = 0

    def encode(self, value: Any, thread: str, blobs: dict[str, bytes]) -> str:
        """Give the text of a value; add to ``blobs`` the texts, by hash, that the thread does not have yet."""
        return self._text(value, thread, blobs).replace(_NULL, _NULL_MARK).decode()

    def stored(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Remember that the thread has these blobs."""
        held = self._stored.setdefault(thread, set())
        self._stored.move_to_end(thread)
        self._count -= len(held)
        held.update(blobs)
        self._count += len(held)
        while self._count > REMEMBERED_BLOBS:
            self._count -= len(self._stored.popitem(last=False)[1])

    def forget(self, thread: str) -> None:
        """Forget what the thread has."""
        self._count -= len(self._stored.pop(thread, ()))

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

    def _text(self, value: Any, thread: str, blobs: dict[str, bytes]) -> bytes:
        """Write a map or list part by part, everything else at once."""
        if type(value) is dict:
            held = cast("dict[Any, Any]", value)
            pairs = (
                self._dump(str(key), thread, blobs) + b":" + self._part(v, thread, blobs) for key, v in held.items()
            )
            return b"{" + b",".join(pairs) + b"}"
        if type(value) is list:
            entries = cast("list[Any]", value)
            return b"[" + b",".join(self._part(entry, thread, blobs) for entry in entries) + b"]"
        return self._part(value, thread, blobs)

    def _part(self, value: Any, thread: str, blobs: dict[str, bytes]) -> bytes:
        if value is None or type(value) in (bool, int, float):
            return self._dump(value, thread, blobs)
        known = self._parts.get(id(value))
        if known is not None and known[0] is value and self._has(thread, known[1][1:-1].decode()):
            self._parts.move_to_end(id(value))
            return known[1]
        text = self._dump(value, thread, blobs)
        if len(text) >= BLOB_BYTES:
            text = self._blob(text, thread, blobs)
            self._parts[id(value)] = (value, text)
            if len(self._parts) > REMEMBERED_PARTS:
                self._parts.popitem(last=False)
        return text

    def _has(self, thread: str, digest: str) -> bool:
        return digest in self._stored.get(thread, ())

    def _blob(self, text: bytes, thread: str, blobs: dict[str, bytes]) -> bytes:
        digest = hashlib.blake2b(text, digest_size=16).hexdigest()
        if not self._has(thread, digest):
            blobs[digest] = text
        return b"\x01" + digest.encode() + b"\x01"

    def _dump(self, value: Any, thread: str, blobs: dict[str, bytes]) -> bytes:
        def sealed(part: Any) -> Any:
            if not isinstance(part, SealedList):
                raise TypeError
            if not part.digest or not self._has(thread, part.digest):
                text = b"[" + b",".join(self._dump(entry, thread, blobs) for entry in part) + b"]"
                part.digest = self._blob(text, thread, blobs)[1:-1].decode()
            return orjson.Fragment(b"\x01" + part.digest.encode() + b"\x01")

        try:
            return orjson.dumps(value, default=sealed, option=_OPTIONS)
        except (TypeError, ValueError, RecursionError):
            pass
        try:
            return orjson.dumps(to_json(value))  # what is not JSON becomes what a component's output would
        except ComponentError as error:
            raise CheckpointError(f"A value cannot be stored: {error}") from None

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
