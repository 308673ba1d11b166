"""State values as text. An inner checkpointer sees nothing but text, so reading never creates objects.

Each value is one JSON text. Parts of a kilobyte or more are *blobs*: they are stored once, under the hash of their
text, and replaced by a mark in the surrounding text. The marks are bytes that never occur in JSON text, so no data
looks like a mark. Large maps and lists are split further into groups of entries, counted from the start, so that after
an append nearly all blobs are shared with the previous version.

Lists that grow with the conversation have a form that can be extended without reading or writing the rest of it; see
`ragflow_lg.checkpoints.stored_lists`.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from threading import Lock
from typing import Any, cast

import orjson

from ragflow_lg.base.append_log import FrozenList
from ragflow_lg.base.errors import CheckpointError, ComponentError, DamagedSessionError
from ragflow_lg.base.long_list import BLOCK, Block, LongList
from ragflow_lg.base.values import to_json
from ragflow_lg.checkpoints.key_ring import require_plain
from ragflow_lg.checkpoints.known_blobs import KnownBlobs, KnownEntries, ThreadBlobs
from ragflow_lg.checkpoints.long_texts import LongTextError, compute
from ragflow_lg.checkpoints.small_groups import OPTIONS, encode_groups, encode_small, map_of_texts
from ragflow_lg.checkpoints.stored_lists import (
    LIST_MARK,
    FindBlobs,
    UnreadBlockError,
    block_mark,
    find_lists,
    list_mark,
    read_list,
)

BLOB_BYTES = 512
"""Parts of a value that are at least this large become blobs."""

SPLIT_BYTES = 4096
"""Maps and lists that are at least this large are split."""

GROUP = 16
"""Entries per blob of a list or map, and groups per blob of the next level."""

ENTRY_BYTES = 16
"""A small entry of a list or map takes about as long as so many bytes of a text."""

MAX_EXPANDED_BYTES = 512 * 1024 * 1024
MAX_NESTING = 64
MAX_SPLIT_DEPTH = 20
REMEMBERED_PARTS = 4096
REMEMBERED_PART_BYTES = 16 * 1024 * 1024
"""The JSON of the parts that are kept. The parts themselves take several times as much memory."""

_MARK = re.compile(rb"\x01([0-9a-f]{32})\x01")
_MARK_BYTES = 34
_SEAL = b"\x04"
"""Separates a text from its checksum."""
_NULL, _NULL_MARK = rb"\u0000", b"\x02"
"""LangGraph's Redis saver removes this escape wherever it occurs."""


def find_digests(text: bytes) -> list[str]:
    """Return the hashes of the blobs that a text refers to."""
    # Looking for one byte is much faster than a regular expression.
    lists = [mark.decode() for mark, _, _ in LIST_MARK.findall(text)] if b"\x03" in text else []
    return lists + _find_marks(text)


def _find_marks(text: bytes) -> list[str]:
    """Return the hashes in the marks of a text, but not those of its long lists."""
    return [mark.decode() for mark in _MARK.findall(text)] if b"\x01" in text else []


def blob_digest(text: bytes) -> str:
    """Return the hash of a blob."""
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def _seal(text: bytes) -> bytes:
    """Append a checksum to a text."""
    return text + _SEAL + hashlib.blake2b(text, digest_size=8).hexdigest().encode()


def _to_stored(text: bytes) -> str:
    return _seal(text.replace(_NULL, _NULL_MARK)).decode()


def encode_whole(value: Any) -> str:
    """Return the text of a value that is obviously small and plain, else ``""``. It refers to no blobs."""
    text = encode_small(value, BLOB_BYTES)
    return _to_stored(text) if text else ""


def is_sealed(stored: bytes) -> bool:
    """Return whether a text ends with its checksum."""
    text, mark, _ = stored.rpartition(_SEAL)
    return bool(mark) and _seal(text) == stored


def _unseal(stored: bytes, is_sealed: bool) -> bytes:
    """Return a text without its checksum, which texts of version 0.1.0 do not have."""
    require_plain(stored)
    text, mark, _ = stored.rpartition(_SEAL)
    if not mark and not is_sealed:
        return stored
    if _seal(text) != stored:
        raise DamagedSessionError("A stored value is damaged: it has been changed.")
    return text


class Codec:
    """Encodes and decodes values. Known parts are cached so that unchanged ones are not hashed again.

    Values must not be changed after encoding; the engine's reducers never do. Several threads may encode values.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        """Held while the remembered parts are changed."""
        self._parts: OrderedDict[int | str, tuple[Any, bytes, int]] = OrderedDict()
        self._part_bytes = 0
        self.known_entries = KnownEntries()
        self._known = KnownBlobs()

    def encode(
        self,
        value: Any,
        thread: str,
        blobs: dict[str, bytes],
        long: Collection[str] = (),
        *,
        channel: str = "",
        max_bytes: int = MAX_EXPANDED_BYTES,
    ) -> str:
        """Return the text of a value, and add the blobs that the thread does not have yet to ``blobs``, by hash.

        ``long`` contains the names of a map's entries that are stored as long lists; ``""`` stands for the whole value.
        The maps of one ``channel`` share the texts of their entries.

        Raises:
            CheckpointError: if the value cannot be stored, or is too large to be read again.
            UnreadBlockError: if it contains a list whose blocks must be read first.
            LongTextError: if more than ``max_bytes`` of it have not been stored yet.
        """
        encoder = _Encoding(self, thread, blobs, max_bytes)
        text = encoder.long_text(value, long, channel)
        if encoder.size(text) > MAX_EXPANDED_BYTES:
            raise CheckpointError(f"Values of more than {MAX_EXPANDED_BYTES:,} bytes cannot be stored.")
        return _to_stored(text)

    def remember_blobs(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Remember that the thread has these blobs, which have been read."""
        self._known.remember(thread, _expanded_sizes(blobs, self._known.of_thread(thread)))

    def remember_stored(self, thread: str, digests: Iterable[str]) -> None:
        """Remember that the thread has these blobs, which have not been read: their sizes are unknown."""
        self._known.remember(thread, dict.fromkeys(digests, 0))

    def end_write(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Remember that these blobs have been written to the thread."""
        self.remember_blobs(thread, blobs)
        self._known.end_write(thread)

    def forget(self, thread: str) -> None:
        """Forget a thread's blobs."""
        self._known.forget(thread)

    def known_blobs(self, thread: str) -> ThreadBlobs:
        """Return the thread's blobs, as far as they are known."""
        return self._known.of_thread(thread)

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
            self._part_bytes += size - self._parts.get(key, (None, b"", 0))[2]
            self._parts[key] = (value, mark, size)
            while len(self._parts) > REMEMBERED_PARTS or self._part_bytes > REMEMBERED_PART_BYTES:
                self._part_bytes -= self._parts.popitem(last=False)[1][2]

    async def decode(
        self,
        text: str,
        find: FindBlobs,
        thread: str = "",
        unread: Collection[str] = (),
        *,
        is_sealed: bool = False,
    ) -> Any:
        """Return the value that a text encodes. If ``is_sealed``, it must have a checksum.

        The long lists named in ``unread`` become `LongList`, whose blocks of ``thread`` are not read; all others become
        plain lists.

        Raises:
            CheckpointError: if the text is damaged, or a blob is missing.
        """
        stored = _unseal(text.encode(), is_sealed).replace(_NULL_MARK, _NULL)
        if unread and b"\x03" in (stored := await self.expand(stored, find, has_lists=False)):
            marks = find_lists(stored, unread)
            lists = {name: await read_list(mark, thread, find, self.expand) for name, mark in marks.items()}
            if "" in lists:
                return lists[""]
            rest = stored
            for mark in sorted(marks.values(), key=lambda mark: mark.start(), reverse=True):
                rest = rest[: mark.start()] + b"null" + rest[mark.end() :]
            rest = await self.expand(rest, find)
            value = await compute(_parse, rest, len(rest))
            if isinstance(value, dict) and all(name in value and value[name] is None for name in lists):
                return {**cast("dict[str, Any]", value), **lists}
        stored = await self.expand(stored, find)
        return await compute(_parse, stored, len(stored))

    async def expand(self, text: bytes, find: FindBlobs, *, has_lists: bool = True) -> bytes:
        """Return a text with its marks replaced by what they stand for; without ``has_lists``, list marks are kept.

        Raises:
            CheckpointError: if a blob is missing, or the text is too large or too deep.
        """
        known: dict[str, bytes] = {}
        for _ in range(MAX_NESTING):
            if has_lists and b"\x03" in text:
                text = LIST_MARK.sub(_mark_head, text)
            marks = await compute(_find_marks, text, len(text))
            if not marks:
                return text
            missing = sorted(set(marks) - known.keys())
            if missing:
                known.update(await find(missing))
            for digest in missing:
                if digest not in known:
                    raise DamagedSessionError(f"A stored value is incomplete: part {digest} is missing.")
            size = len(text) + sum(len(known[digest]) - _MARK_BYTES for digest in marks)
            if size > MAX_EXPANDED_BYTES:
                raise DamagedSessionError(f"A stored value is larger than {MAX_EXPANDED_BYTES:,} bytes.")
            text = await compute(partial(_fill_marks, known), text, size)
        raise DamagedSessionError("A stored value is nested too deeply.")


def _fill_marks(known: Mapping[str, bytes], text: bytes) -> bytes:
    return _MARK.sub(lambda mark: known[mark[1].decode()], text)


class _Encoding:
    """The encoding of one value for one thread."""

    def __init__(self, codec: Codec, thread: str, blobs: dict[str, bytes], max_bytes: int) -> None:
        self._codec = codec
        self._thread = thread
        self._known = codec.known_blobs(thread)
        self._blobs = blobs
        self._own: dict[str, int] = {}
        self._left_bytes = max_bytes
        """How many more bytes may be encoded."""

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

        if len(value) * ENTRY_BYTES > self._left_bytes:
            raise LongTextError
        texts = self._codec.known_entries.encode((self._thread, channel), value, encode)
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
        return (
            len(text) + _unread_bytes(text) + sum(self._size_of(digest) - _MARK_BYTES for digest in _find_marks(text))
        )

    def _size_of(self, digest: str) -> int:
        size = self._known.use(digest)
        return size if size is not None else self._own.get(digest, 0)

    def _part(self, value: Any, depth: int) -> bytes:
        if value is None or type(value) in (bool, int, float):
            return self._dump(value)
        mark = self._codec.find_mark(value)
        if mark is not None and self._has(mark[1:-1].decode()):
            return mark
        if type(value) is str and len(value) > self._left_bytes:
            raise LongTextError
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
            self._codec.remember_mark(value, text, size)
        return text

    def _long_list(self, value: LongList | list[Any]) -> bytes:
        """Store the blocks and the head of a list that are not stored yet, and return the list's mark."""
        mark = value.mark if isinstance(value, LongList) else self._codec.find_mark(value)
        if mark and (match := LIST_MARK.match(mark)) and self._has(match[1].decode()):
            for block in value.blocks if isinstance(value, LongList) else ():
                self._known.use(block.digest)  # they are needed as soon as the list is extended
            return mark
        entries = value if isinstance(value, LongList) else LongList([], []).extended(value)
        count, size = entries.measured
        try:
            new = entries.last(len(entries) - count)
            marks = [block_mark(self._block(block)) for block in entries.blocks]
        except LookupError:
            raise UnreadBlockError(entries) from None
        size += sum(self.size(self._part(entry, 1)) + 1 for entry in new)
        digest = self._blob(b",".join([*marks, *(self._part(entry, 1) for entry in entries.tail)]))[1:-1].decode()
        mark = list_mark(digest, len(entries), size)
        if isinstance(value, LongList):
            value.mark = mark
        else:
            self._codec.remember_mark(value, mark, size)
        return mark

    def _block(self, block: Block) -> str:
        """Store a block that is not stored yet, and return its hash."""
        if block.digest and self._has(block.digest):
            return block.digest
        if block.content is None:
            raise LookupError(block.digest)
        if block.level > 1:
            parts = [block_mark(self._block(part)) for part in cast("list[Block]", block.content)]
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
        if len(entries) * ENTRY_BYTES > self._left_bytes:
            raise LongTextError
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
        self._left_bytes -= len(text)
        if self._left_bytes < 0:
            raise LongTextError
        digest = blob_digest(text)
        if not self._has(digest):
            self._blobs[digest] = text
            self._own[digest] = self.size(text)
        return b"\x01" + digest.encode() + b"\x01"

    def _dump(self, value: Any) -> bytes:
        def encode_frozen(part: Any) -> Any:
            if type(part) is LongList:
                return orjson.Fragment(self._long_list(part))
            if not isinstance(part, FrozenList):
                raise TypeError
            if not part.digest or not self._has(part.digest):
                part.digest = self._blob(self._frozen_text(part, encode_frozen))[1:-1].decode()
            return orjson.Fragment(b"\x01" + part.digest.encode() + b"\x01")

        try:
            text = orjson.dumps(value, default=encode_frozen, option=OPTIONS)
            return bytes(memoryview(text)) if len(text) < BLOB_BYTES else text  # orjson's own occupies kilobytes
        except (TypeError, ValueError, RecursionError) as error:
            if isinstance(error.__cause__, UnreadBlockError | LongTextError):
                raise error.__cause__ from None
        try:
            return orjson.dumps(to_json(value))  # other values are converted as in component outputs
        except ComponentError as error:
            raise CheckpointError(f"A value cannot be stored: {error}") from None

    def _frozen_text(self, part: FrozenList, encode_frozen: Callable[[Any], Any]) -> bytes:
        try:
            return orjson.dumps(list(part), default=encode_frozen, option=OPTIONS)
        except (TypeError, ValueError, RecursionError) as error:
            if isinstance(error.__cause__, UnreadBlockError | LongTextError):
                raise error.__cause__ from None
        return b"[" + b",".join(map(self._dump, part)) + b"]"


def _unchanged(entries: list[Any]) -> list[Any]:
    return entries


def _part_key(value: Any) -> int | str:
    """Return the key of a part in the cache. The same text is often in several values."""
    return value if type(value) is str else id(value)


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


def _mark_head(mark: re.Match[bytes]) -> bytes:
    return b"[" + block_mark(mark[1].decode()) + b"]"


def _is_long(value: object) -> bool:
    return type(value) is LongList or (type(value) is list and len(cast("list[Any]", value)) >= BLOCK)


def _unread_bytes(text: bytes) -> int:
    """Return by how much the text's long lists are longer than their marks."""
    return sum(int(mark[3]) - len(mark[0]) for mark in LIST_MARK.finditer(text)) if b"\x03" in text else 0


def _parse(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except ValueError as error:
        raise DamagedSessionError(f"A stored value cannot be read: {error}.") from None


def _expanded_sizes(blobs: Mapping[str, bytes], known: ThreadBlobs) -> dict[str, int]:
    """Return the expanded sizes of blobs. The parts of each blob are among ``blobs`` or in ``known``."""
    blob_sizes: dict[str, int] = {}

    def size(digest: str, depth: int) -> int:
        if (known_size := blob_sizes.get(digest, known.use(digest))) is not None:
            return known_size
        text = blobs.get(digest)
        if text is None or depth > MAX_NESTING:
            return 0
        inner = _unread_bytes(text)
        inner += sum(size(part, depth + 1) - _MARK_BYTES for part in _find_marks(text))
        blob_sizes[digest] = len(text) + inner
        return blob_sizes[digest]

    for digest in blobs:
        size(digest, 0)
    return blob_sizes
