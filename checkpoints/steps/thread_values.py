"""The values of a thread in its store: texts, whose large parts are blobs. Reading and writing them.

A write contains only the blobs that the thread does not have yet. If the store has lost blobs that this process
believes to be stored, the write is repeated with all of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig

from ragflow_lg.base.errors import CheckpointError, DamagedSessionError
from ragflow_lg.checkpoints.steps.channel_values import to_object, to_plain
from ragflow_lg.checkpoints.steps.preconditions import BLOB_MISSING, NO_LEASE, Blobs, OpenTransaction, Precondition
from ragflow_lg.checkpoints.steps.saver_errors import SaverErrors
from ragflow_lg.checkpoints.steps.saver_operations import CheckpointKey, thread_of
from ragflow_lg.checkpoints.values.decoding import FindBlobs, decode
from ragflow_lg.checkpoints.values.encoding import encode
from ragflow_lg.checkpoints.values.known_blobs import KnownBlobs
from ragflow_lg.checkpoints.values.marks import blob_digest, find_digests
from ragflow_lg.services.sessions import LEASE_TOKEN

MAX_COUNTED = 10_000
"""For how many threads written bytes are counted."""

MAX_LAST = 256
"""For how many channels the last value is kept."""

_TRIES = 3

_T = TypeVar("_T")
_R = TypeVar("_R")


class WrittenBlobs:
    """The blobs of one write."""

    def __init__(self) -> None:
        self.new: dict[str, bytes] = {}
        self._texts: list[bytes] = []

    def add_text(self, text: str) -> str:
        """Note a text that may refer to blobs, and return it."""
        self._texts.append(text.encode())
        return text

    def size(self) -> int:
        """Return how many bytes all texts and blobs have."""
        return sum(map(len, self._texts)) + sum(map(len, self.new.values()))

    def known(self) -> set[str]:
        """Return the hashes of blobs that the write refers to but does not contain."""
        return {
            digest for text in (*self._texts, *self.new.values()) for digest in find_digests(text)
        } - self.new.keys()


class ThreadValues:
    """Reads and writes the values of all threads of a store."""

    def __init__(self, blobs: Blobs, errors: SaverErrors, transaction: OpenTransaction) -> None:
        self.blobs = blobs
        self.errors = errors
        self.transaction = transaction
        self._known = KnownBlobs()
        self._last: OrderedDict[tuple[str, str], tuple[Any, str]] = OrderedDict()
        """The last values of channels by thread, with their texts: most steps change only a few channels."""
        self._written: OrderedDict[str, int] = OrderedDict()

    def take_written_bytes(self, thread: str) -> int:
        """Return how many bytes this process has written for a thread since it was last asked, before compression."""
        return self._written.pop(thread, 0)

    def _count(self, thread: str, size: int) -> None:
        self._written[thread] = self._written.pop(thread, 0) + size
        if len(self._written) > MAX_COUNTED:  # nobody asks
            self._written.popitem(last=False)

    def forget(self, thread: str) -> None:
        """Forget which blobs a thread has."""
        self._known.forget(thread)
        for place in [place for place in self._last if place[0] == thread]:
            del self._last[place]

    async def write(
        self,
        config: RunnableConfig,
        pack: Callable[[WrittenBlobs], _T],
        put: Callable[[_T], Awaitable[_R]],
        checkpoint: CheckpointKey | None = None,
    ) -> _R:
        """Store what ``pack`` returns, with its blobs. ``checkpoint`` must be stored already.

        Raises:
            SessionBusyError: if another runner holds the session.
            CheckpointError: if the store fails.
        """
        thread = thread_of(config)
        token = config["configurable"].get(LEASE_TOKEN, NO_LEASE)  # pyright: ignore[reportTypedDictNotRequiredAccess] - see `thread_of`
        for _ in range(_TRIES):
            blobs = WrittenBlobs()
            packed = pack(blobs)
            try:
                async with self.transaction(Precondition(thread, token, blobs.known(), checkpoint)):
                    if blobs.new:
                        await self.blobs.put(thread, blobs.new)
                    result = await put(packed)
            except self.errors.kinds as error:
                if BLOB_MISSING not in str(error):
                    raise self.errors.describe("written", error) from error
                self.forget(thread)
                continue
            self._known.remember(thread, blobs.new)
            self._count(thread, blobs.size())
            return result
        raise CheckpointError("The session cannot be written: another process keeps deleting it.")

    def encode(self, channel: str, value: Any, thread: str, blobs: WrittenBlobs) -> str:
        """Return the text of a channel's value, and add its blobs to the write."""
        last = self._last.pop((thread, channel), None)
        if last is None or last[0] is not value:
            last = value, encode(to_plain(channel, value), self._known.of_thread(thread), blobs.new)
        self._last[thread, channel] = last
        if len(self._last) > MAX_LAST:
            self._last.popitem(last=False)
        return blobs.add_text(last[1])

    async def decode(self, channel: str, text: Any, thread: str) -> Any:
        """Return the value of a text, or None.

        Raises:
            CheckpointError: if the store fails, or the text or a blob is damaged.
            TypeError: if it is not a text.
        """
        if text is None:
            return None
        if not isinstance(text, str):
            raise TypeError("a value is not stored as text")
        return to_object(channel, await decode(text, self._finder(thread)))

    def _finder(self, thread: str) -> FindBlobs:
        async def find(digests: Sequence[str]) -> Mapping[str, bytes]:
            return await self._find(thread, digests)

        return find

    async def _find(self, thread: str, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Read blobs, and remember that they exist so that they are not written again."""
        with self.errors.translate("read"):
            blobs = await self.blobs.find(thread, digests)
        _check_blobs(blobs)
        self._known.remember(thread, blobs)
        return blobs


def _check_blobs(blobs: Mapping[str, bytes]) -> None:
    """Raise DamagedSessionError if a blob differs from its hash."""
    for digest, text in blobs.items():
        if blob_digest(text) != digest:
            raise DamagedSessionError(f"A stored value is damaged: part {digest} has been changed.")


class StepResults:
    """The step results of one thread. Implements `ragflow_lg.services.sessions.Steps`, which names the errors."""

    def __init__(self, values: ThreadValues, config: RunnableConfig) -> None:
        self._values = values
        self._config = config
        self._thread = thread_of(config)

    async def put(self, key: str, value: Any) -> None:
        """Store a result. It is durable when this method returns."""

        def pack(blobs: WrittenBlobs) -> str:
            return self._values.encode("", [value], self._thread, blobs)

        async def put(packed: str) -> None:
            await self._values.blobs.put(self._thread, {key: packed.encode()})

        await self._values.write(self._config, pack, put)

    async def find(self, key: str) -> tuple[bool, Any]:
        """Return whether there is a result, and that result."""
        with self._values.errors.translate_read():
            blobs = await self._values.blobs.find(self._thread, [key])
            if key not in blobs:
                return False, None
            (value,) = await self._values.decode("", blobs[key].decode(), self._thread)
            return True, value
