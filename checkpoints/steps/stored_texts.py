"""Values as stored texts. A store sees nothing but texts, so reading never creates objects.

Each value is one JSON text with a checksum. Parts of half a kilobyte or more are *blobs*: they are stored once, under
the hash of their text, and replaced by a *mark* in the surrounding text: bytes that never occur in JSON, so no data
looks like one. Long maps and lists are split into groups of entries, counted from the start, so that after an append
nearly all blobs are shared with the previous version.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, cast

import orjson
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, TASKS
from msgspec import Struct

from ragflow_lg.base.errors import CheckpointError, ComponentError, DamagedSessionError
from ragflow_lg.base.values import to_json

if TYPE_CHECKING:
    from langgraph.types import Interrupt, Send


BLOB_BYTES = 512
"""Parts of a value that are at least this large become blobs."""
WHOLE_BYTES = 1024
"""Smaller values are stored whole: most of a turn are."""
GROUP = 16
"""Entries per group of a list or map, and groups per group of the next level."""
GROUP_BYTES = GROUP * BLOB_BYTES
"""Groups that are at least this large are encoded entry by entry."""
MAX_DEPTH = 20
"""Parts that are deeper are not split."""
MAX_EXPANDED_BYTES = 512 * 1024 * 1024
MAX_NESTING = 64

_OPTIONS = orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
_MARK = re.compile(rb"\x01([0-9a-f]{32})\x01")
_MARK_BYTES = 34
_SEAL = b"\x04"
"""Separates a text from its checksum."""

Digest = Callable[[bytes], str]
"""Returns the hash of a blob, 32 hexadecimal digits."""
FindBlobs = Callable[[Sequence[str]], Awaitable[Mapping[str, bytes]]]
"""Returns the existing blobs, by hash."""


def blob_digest(text: bytes) -> str:
    """Return the hash of a blob that is not encrypted."""
    return blake2b(text, digest_size=16).hexdigest()


def find_digests(text: bytes) -> list[str]:
    """Return the hashes of the blobs that a text refers to."""
    return [mark.decode() for mark in _MARK.findall(text)]


def encode(value: Any, known: Collection[str], blobs: dict[str, bytes], digest: Digest = blob_digest) -> bytes:
    """Return the text of a value, and add its blobs to ``blobs``, by hash, except those that are ``known``.

    Raises:
        CheckpointError: if the value cannot be stored, or is too large to be read again.
    """
    try:
        text = _dump(value)
    except (TypeError, ValueError, RecursionError):  # other values are converted as in component outputs
        try:
            value = to_json(value)
            text = _dump(value)
        except (ComponentError, TypeError, ValueError, RecursionError) as error:
            raise CheckpointError(f"A value cannot be stored: {error}") from None
    if len(text) > MAX_EXPANDED_BYTES:
        raise CheckpointError(f"Values of more than {MAX_EXPANDED_BYTES:,} bytes cannot be stored.")
    if len(text) >= WHOLE_BYTES:
        text = _Parts(known, blobs, digest).shorten(value, text, 0)
    return text + _SEAL + _checksum(text)


async def decode(stored: bytes, find: FindBlobs) -> Any:
    """Return the value that a text encodes.

    Raises:
        CheckpointError: if the text is damaged, or a blob is missing.
    """
    text, _, checksum = stored.rpartition(_SEAL)
    if _checksum(text) != checksum:
        raise DamagedSessionError("A stored value is damaged: it has been changed.")
    try:
        return orjson.loads(await _expand(text, find))
    except ValueError as error:
        raise DamagedSessionError(f"A stored value cannot be read: {error}.") from None


async def _expand(text: bytes, find: FindBlobs) -> bytes:
    """Return a text with its marks replaced by what they stand for."""
    known: dict[str, bytes] = {}
    for _ in range(MAX_NESTING):
        marks = find_digests(text)
        if not marks:
            return text
        if missing := sorted(set(marks) - known.keys()):
            known.update(await find(missing))
        for digest in missing:
            if digest not in known:
                raise DamagedSessionError(f"A stored value is incomplete: part {digest} is missing.")
        size = len(text) + sum(len(known[digest]) - _MARK_BYTES for digest in marks)
        if size > MAX_EXPANDED_BYTES:
            raise DamagedSessionError(f"A stored value is larger than {MAX_EXPANDED_BYTES:,} bytes.")
        text = _MARK.sub(lambda mark: known[mark[1].decode()], text)
    raise DamagedSessionError("A stored value is nested too deeply.")


class _Parts(Struct):
    """The parts of a value."""

    known: Collection[str]
    blobs: dict[str, bytes]
    digest: Digest

    def shorten(self, value: Any, text: bytes, depth: int) -> bytes:
        """Return the text of a value, or the mark that stands for it if it is large."""
        if len(text) >= BLOB_BYTES and depth < MAX_DEPTH:
            if type(value) is dict:
                text = b"{" + self._split(list(cast("dict[str, Any]", value).items()), depth + 1, is_map=True) + b"}"
            elif type(value) in (list, tuple):
                text = b"[" + self._split(cast("Sequence[Any]", value), depth + 1, is_map=False) + b"]"
        return self._blob(text)

    def _split(self, entries: Sequence[Any], depth: int, *, is_map: bool) -> bytes:
        """Return the entries of a list or map. Groups of them, and groups of groups, become blobs."""
        groups = [entries[start : start + GROUP] for start in range(0, len(entries), GROUP)]
        if len(groups) <= 1:
            return self._join(entries, depth, is_map=is_map)
        texts: list[bytes] = []
        for group in groups:
            text = _dump(dict(group) if is_map else group)[1:-1]
            are_large = len(text) >= GROUP_BYTES  # a call for each small entry would take most of the time
            texts.append(self._blob(self._join(group, depth, is_map=is_map) if are_large else text))
        while len(texts) > GROUP:
            starts = range(0, len(texts), GROUP)
            texts = [self._blob(b",".join(texts[start : start + GROUP])) for start in starts]
        return b",".join(texts)

    def _join(self, entries: Sequence[Any], depth: int, *, is_map: bool) -> bytes:
        if is_map:
            return b",".join(_dump(key) + b":" + self.shorten(part, _dump(part), depth) for key, part in entries)
        return b",".join(self.shorten(part, _dump(part), depth) for part in entries)

    def _blob(self, text: bytes) -> bytes:
        """Store a large text, and return its mark."""
        if len(text) < BLOB_BYTES:
            return text
        digest = self.digest(text)
        if digest not in self.known:
            self.blobs[digest] = text
        return b"\x01" + digest.encode() + b"\x01"


def _dump(value: Any) -> bytes:
    return orjson.dumps(value, option=_OPTIONS)


def _checksum(text: bytes) -> bytes:
    return blake2b(text, digest_size=8).hexdigest().encode()


def to_plain(channel: str, value: Any) -> Any:
    """Return a channel's value without LangGraph objects."""
    if channel == INTERRUPT:
        return _plain_interrupts(value)
    if channel == TASKS:
        sends = cast("list[Send]", value if isinstance(value, list) else [value])
        return {"list": isinstance(value, list), "sends": [{"node": s.node, "arg": s.arg} for s in sends]}
    if channel == ERROR and isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    return value


def to_object(channel: str, value: Any) -> Any:
    """Return the value that a channel had before `to_plain`.

    Raises:
        TypeError, LookupError, AttributeError: if the stored value was modified by something else.
    """
    if channel == INTERRUPT:
        pauses = value.get("pauses")
        return value["data"] if pauses is None else [_to_interrupt(pause) for pause in pauses]
    if channel == TASKS:
        from langgraph.types import Send

        sends = [Send(entry["node"], entry["arg"]) for entry in value["sends"]]
        return sends if value["list"] else sends[0]
    return value


def _plain_interrupts(value: Any) -> dict[str, Any]:
    from langgraph.types import Interrupt

    entries = cast("list[Any]", value) if isinstance(value, list | tuple) else [value]
    if all(isinstance(entry, Interrupt) for entry in entries):
        return {"pauses": [_plain_interrupt(pause) for pause in entries]}
    return {"data": value}


def _plain_interrupt(pause: Interrupt) -> dict[str, Any]:
    schema: Any = pause.response_schema
    plain: dict[str, Any] = {"value": pause.value, "id": pause.id}
    return {**plain, "response_schema": schema} if isinstance(schema, dict) else plain  # a type cannot be stored


def _to_interrupt(stored: Mapping[str, Any]) -> Interrupt:
    from langgraph.types import Interrupt

    return Interrupt(value=stored["value"], id=stored["id"], response_schema=stored.get("response_schema"))
