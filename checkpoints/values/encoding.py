"""State values as text. An inner checkpointer sees nothing but text, so reading never creates objects.

Each value is one JSON text. Parts of a kilobyte or more are *blobs*: they are stored once, under the hash of their
text, and replaced by a mark in the surrounding text; see `ragflow_lg.checkpoints.values.marks`. Large maps and lists
are split further into groups of entries, counted from the start, so that after an append nearly all blobs are shared
with the previous version.

Lists that grow with the conversation have a form that can be extended without reading or writing the rest of it; see
`ragflow_lg.checkpoints.values.stored_lists`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

import orjson

from ragflow_lg.base.append_log import FrozenList
from ragflow_lg.base.errors import CheckpointError, ComponentError
from ragflow_lg.base.long_list import BLOCK, Block, LongList
from ragflow_lg.base.values import to_json
from ragflow_lg.checkpoints.values.expansion import MAX_EXPANDED_BYTES
from ragflow_lg.checkpoints.values.known_blobs import KnownBlobs
from ragflow_lg.checkpoints.values.known_parts import KnownEntries, KnownParts
from ragflow_lg.checkpoints.values.marks import (
    LIST_MARK,
    MARK_BYTES,
    blob_digest,
    blob_mark,
    find_marks,
    list_mark,
    unread_bytes,
)
from ragflow_lg.checkpoints.values.seals import seal
from ragflow_lg.checkpoints.values.small_groups import OPTIONS, encode_groups, encode_small, map_of_texts
from ragflow_lg.checkpoints.values.stored_lists import UnreadBlockError

BLOB_BYTES = 512
"""Parts of a value that are at least this large become blobs."""

SPLIT_BYTES = 4096
"""Maps and lists that are at least this large are split."""

GROUP = 16
"""Entries per blob of a list or map, and groups per blob of the next level."""

MAX_SPLIT_DEPTH = 20


def encode_whole(value: Any) -> str:
    """Return the text of a value that is obviously small and plain, else ``""``. It refers to no blobs."""
    text = encode_small(value, BLOB_BYTES)
    return seal(text) if text else ""


class Encoder:
    """Encodes values. Known parts are cached so that unchanged ones are not hashed again.

    Values must not be changed after encoding; the engine's reducers never do.
    """

    def __init__(self) -> None:
        self.known_blobs = KnownBlobs()
        self.known_entries = KnownEntries()
        self.known_parts = KnownParts()

    def encode(
        self,
        value: Any,
        thread: str,
        blobs: dict[str, bytes],
        long: Collection[str] = (),
        *,
        channel: str = "",
    ) -> str:
        """Return the text of a value, and add the blobs that the thread does not have yet to ``blobs``, by hash.

        ``long`` contains the names of a map's entries that are stored as long lists; ``""`` stands for the whole value.
        The maps of one ``channel`` share the texts of their entries.

        Raises:
            CheckpointError: if the value cannot be stored, or is too large to be read again.
            UnreadBlockError: if it contains a list whose blocks must be read first.
        """
        encoder = _Encoding(self, thread, blobs)
        text = encoder.long_text(value, long, channel)
        if encoder.size(text) > MAX_EXPANDED_BYTES:
            raise CheckpointError(f"Values of more than {MAX_EXPANDED_BYTES:,} bytes cannot be stored.")
        return seal(text)

    def end_write(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Remember that these blobs have been written to the thread."""
        self.known_blobs.remember_texts(thread, blobs)
        self.known_blobs.end_write(thread)


class _Encoding:
    """The encoding of one value for one thread."""

    def __init__(self, encoder: Encoder, thread: str, blobs: dict[str, bytes]) -> None:
        self._thread = thread
        self._parts = encoder.known_parts
        self._entries = encoder.known_entries
        self._known = encoder.known_blobs.of_thread(thread)
        self._blobs = blobs
        self._own: dict[str, int] = {}

    def long_text(self, value: Any, names: Collection[str], channel: str) -> bytes:
        """Encode the value of a channel; the lists with these names are stored as long lists."""
        if "" in names and _is_long(value):
            return self._long_list(value)
        if names and type(value) is dict:

            def encode_pair(pair: tuple[Any, Any]) -> bytes:
                name, part = pair
                is_long = name in names and _is_long(part)
                return self._dump(str(name)) + b":" + (self._long_list(part) if is_long else self._part(part, 1))

            def map_of_short(pairs: Sequence[tuple[Any, Any]]) -> dict[str, Any] | None:
                return None if any(name in names for name, _ in pairs) else map_of_texts(pairs)

            entries = list(cast("dict[Any, Any]", value).items())
            return b"{" + self._join_entries(entries, map_of_short, encode_pair) + b"}"
        if channel and type(value) is dict:
            return self._map_text(cast("dict[Any, Any]", value), channel)
        return self.text(value)

    def _map_text(self, value: dict[Any, Any], channel: str) -> bytes:
        """Encode a map, with the known texts of the entries that the channel's last map had as well."""

        def encode(key: Any, part: Any) -> bytes:
            return self._dump(str(key)) + b":" + self._part(part, 1)

        texts = self._entries.encode((self._thread, channel), value, encode)
        if len(texts) < 2 * GROUP:
            return b"{" + b",".join(texts) + b"}"
        whole = len(texts) - len(texts) % GROUP
        groups = [b",".join(texts[start : start + GROUP]) for start in range(0, whole, GROUP)]
        return b"{" + self._join_groups([*self._group_all(groups), *texts[whole:]]) + b"}"

    def text(self, value: Any, depth: int = 0) -> bytes:
        """Encode maps and lists part by part, and all other values at once."""

        def encode_pair(pair: tuple[Any, Any]) -> bytes:
            return self._dump(str(pair[0])) + b":" + self._part(pair[1], depth + 1)

        def encode_entry(entry: Any) -> bytes:
            return self._part(entry, depth + 1)

        if type(value) is dict:
            pairs = list(cast("dict[Any, Any]", value).items())
            return b"{" + self._join_entries(pairs, map_of_texts, encode_pair) + b"}"
        if type(value) is list:
            return b"[" + self._join_entries(cast("list[Any]", value), _unchanged, encode_entry) + b"]"
        return self._part(value, depth + 1)

    def size(self, text: bytes) -> int:
        """Return the length of a text with all marks expanded."""
        return len(text) + unread_bytes(text) + sum(self._size_of(digest) - MARK_BYTES for digest in find_marks(text))

    def _size_of(self, digest: str) -> int:
        size = self._known.use(digest)
        return size if size is not None else self._own.get(digest, 0)

    def _part(self, value: Any, depth: int) -> bytes:
        if value is None or type(value) in (bool, int, float):
            return self._dump(value)
        mark = self._parts.find_mark(value)
        if mark is not None and self._has(mark[1:-1].decode()):
            return mark
        can_split = depth < MAX_SPLIT_DEPTH and type(value) in (dict, list)
        if can_split and _has_long_text(value):
            text = self.text(value, depth)
            size = self.size(text)
        else:
            text = self._dump(value)
            size = len(text)
            if size >= SPLIT_BYTES and can_split:
                text = self.text(value, depth)
        if len(text) >= BLOB_BYTES:
            text = self._blob(text)
            self._parts.remember_mark(value, text, size)
        return text

    def _long_list(self, value: LongList | list[Any]) -> bytes:
        """Store the blocks and the head of a list that are not stored yet, and return the list's mark."""
        mark = value.mark if isinstance(value, LongList) else self._parts.find_mark(value)
        if mark and (match := LIST_MARK.match(mark)) and self._has(match[1].decode()):
            for block in value.blocks if isinstance(value, LongList) else ():
                self._known.use(block.digest)  # they are needed as soon as the list is extended
            return mark
        entries = value if isinstance(value, LongList) else LongList([], []).extended(value)
        count, size = entries.measured
        try:
            new = entries.last(len(entries) - count)
            marks = [blob_mark(self._block(block)) for block in entries.blocks]
        except LookupError:
            raise UnreadBlockError(entries) from None
        size += sum(self.size(self._part(entry, 1)) + 1 for entry in new)
        digest = self._blob(b",".join([*marks, *(self._part(entry, 1) for entry in entries.tail)]))[1:-1].decode()
        mark = list_mark(digest, len(entries), size)
        if isinstance(value, LongList):
            value.mark = mark
        else:
            self._parts.remember_mark(value, mark, size)
        return mark

    def _block(self, block: Block) -> str:
        """Store a block that is not stored yet, and return its hash."""
        if block.digest and self._has(block.digest):
            return block.digest
        if block.content is None:
            raise LookupError(block.digest)
        if block.level > 1:
            parts = [blob_mark(self._block(part)) for part in cast("list[Block]", block.content)]
        else:
            parts = [self._part(entry, 1) for entry in block.content]
        block.digest = self._blob(b",".join(parts))[1:-1].decode()
        return block.digest

    def _join_groups(self, entries: list[bytes]) -> bytes:
        """Join the entries of a list or map; full groups, and groups of groups, become blobs."""
        parts = entries
        while len(parts) >= 2 * GROUP:
            whole = len(parts) - len(parts) % GROUP
            groups = [b",".join(parts[start : start + GROUP]) for start in range(0, whole, GROUP)]
            parts = [*map(self._group, groups), *parts[whole:]]
        return b",".join(parts)

    def _join_entries(self, entries: list[Any], whole: Callable[[Any], Any], one: Callable[[Any], bytes]) -> bytes:
        """Encode and join the entries of a list or map; see `encode_groups`."""
        if len(entries) < 2 * GROUP:
            return b",".join(map(one, entries))
        groups = encode_groups(entries, GROUP, BLOB_BYTES, whole, one)
        return self._join_groups([*self._group_all(groups), *map(one, entries[len(groups) * GROUP :])])

    def _group_all(self, groups: list[bytes]) -> Iterator[bytes]:
        """Yield blobs of groups. Small groups are joined, so that they do not stay in the text that changes."""
        start = size = 0
        for end, text in enumerate(groups, 1):
            size += len(text)
            if size >= BLOB_BYTES:
                yield self._blob(b",".join(groups[start:end]))
                start, size = end, 0
        yield from groups[start:]

    def _group(self, text: bytes) -> bytes:
        return self._blob(text) if len(text) >= BLOB_BYTES else text

    def _has(self, digest: str) -> bool:
        return digest in self._own or self._known.use(digest) is not None

    def _blob(self, text: bytes) -> bytes:
        digest = blob_digest(text)
        if not self._has(digest):
            self._blobs[digest] = text
            self._own[digest] = self.size(text)
        return blob_mark(digest)

    def _dump(self, value: Any) -> bytes:
        try:
            text = orjson.dumps(value, default=self._encode_frozen, option=OPTIONS)
            return bytes(memoryview(text)) if len(text) < BLOB_BYTES else text  # orjson's own occupies kilobytes
        except (TypeError, ValueError, RecursionError) as error:
            if isinstance(error.__cause__, UnreadBlockError):
                raise error.__cause__ from None
        try:
            return orjson.dumps(to_json(value))  # other values are converted as in component outputs
        except ComponentError as error:
            raise CheckpointError(f"A value cannot be stored: {error}") from None

    def _encode_frozen(self, part: Any) -> Any:
        """Encode a list that `orjson` does not know. A function that calls itself would keep all blobs in a cycle."""
        if type(part) is LongList:
            return orjson.Fragment(self._long_list(part))
        if not isinstance(part, FrozenList):
            raise TypeError
        if not part.digest or not self._has(part.digest):
            part.digest = self._blob(self._frozen_text(part))[1:-1].decode()
        return orjson.Fragment(blob_mark(part.digest))

    def _frozen_text(self, part: FrozenList) -> bytes:
        try:
            return orjson.dumps(list(part), default=self._encode_frozen, option=OPTIONS)
        except (TypeError, ValueError, RecursionError) as error:
            if isinstance(error.__cause__, UnreadBlockError):
                raise error.__cause__ from None
        return b"[" + b",".join(map(self._dump, part)) + b"]"


def _unchanged(entries: list[Any]) -> list[Any]:
    return entries


def _has_long_text(value: Any, depth: int = 3) -> bool:
    """Return whether a map or a list is obviously large. It is then split without being encoded as a whole first."""
    entries: Iterable[Any] = cast("dict[Any, Any]", value).values() if type(value) is dict else value
    for entry in islice(entries, GROUP):  # a call for each entry, or a generator, would take most of the time
        kind = type(entry)  # pyright: ignore[reportUnknownVariableType] - of any value
        if kind is str:
            if len(entry) >= SPLIT_BYTES:
                return True
        elif depth > 1 and (kind is dict or kind is list) and _has_long_text(entry, depth - 1):
            return True
    return False


def _is_long(value: object) -> bool:
    return type(value) is LongList or (type(value) is list and len(cast("list[Any]", value)) >= BLOCK)
