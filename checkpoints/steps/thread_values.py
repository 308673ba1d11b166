"""The values of a thread in its store: texts, whose large parts are blobs, encrypted if there are keys.

A write contains only the blobs that the thread does not have yet. If the store has lost blobs that this process
believes to be stored, the write is repeated with all of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import RunnableConfig

from ragflow_lg.base.errors import CheckpointError, DamagedSessionError
from ragflow_lg.checkpoints.key_ring import is_encrypted, missing_key
from ragflow_lg.checkpoints.steps.stored_texts import blob_digest, decode, encode, find_digests, to_object, to_plain
from ragflow_lg.checkpoints.steps.thread_tables import (
    BLOB_MISSING,
    NO_LEASE,
    CheckpointKey,
    Precondition,
    ThreadTables,
    describe,
    thread_of,
    translating,
)
from ragflow_lg.services.sessions import LEASE_TOKEN

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.key_ring import KeyRing

MAX_THREADS = 256
"""For how many threads this process remembers which blobs they have. Others are written once more."""
MAX_COUNTED = 10_000
"""For how many threads written bytes are counted."""
PAGE = 500
"""How many blobs are read or deleted at once."""
_STEP = "step:"
"""What stands before the key of a step in the name of its result, which is stored like a blob."""
_TRIES = 3


class ThreadValues:
    """Reads and writes the values of all threads of a store."""

    def __init__(self, tables: ThreadTables, keys: KeyRing | None) -> None:
        self.tables = tables
        self._keys = keys
        self._known: OrderedDict[str, set[str]] = OrderedDict()
        self._written: OrderedDict[str, int] = OrderedDict()

    def take_written_bytes(self, thread: str) -> int:
        """Return how many bytes this process has written for a thread since it was last asked, before compression."""
        return self._written.pop(thread, 0)

    def forget(self, thread: str) -> None:
        """Forget which blobs a thread has."""
        self._known.pop(thread, None)

    def _remember(self, thread: str, names: Iterable[str]) -> None:
        self._known.setdefault(thread, set()).update(names)
        self._known.move_to_end(thread)
        if len(self._known) > MAX_THREADS:
            self._known.popitem(last=False)

    def seal(self, thread: str, place: str, text: bytes) -> bytes:
        """Return a text as it is stored: encrypted if there are keys."""
        return text if self._keys is None else self._keys.encrypt(thread, [place], text)

    def _open(self, thread: str, place: str, stored: bytes) -> bytes:
        """Return a stored text."""
        if self._keys is None:
            if is_encrypted(stored):
                raise missing_key(stored)
            return stored
        return self._keys.decrypt(thread, [place], stored)

    async def write(
        self,
        config: RunnableConfig,
        values: Sequence[tuple[str, Any]],
        put: Callable[[Sequence[bytes]], Awaitable[None]],
        checkpoint: CheckpointKey | None = None,
    ) -> None:
        """Store values, each with its place, with their blobs: ``put`` gets the texts.

        ``checkpoint`` must be stored already.

        Raises:
            SessionBusyError: if another runner holds the session.
            CheckpointError: if the store fails.
        """
        thread, token = thread_of(config), config.get("configurable", {}).get(LEASE_TOKEN, NO_LEASE)
        digest = blob_digest if self._keys is None else partial(self._keys.digest, thread)
        for _ in range(_TRIES):
            blobs: dict[str, bytes] = {}
            texts = [encode(to_plain(*value), self._known.get(thread, ()), blobs, digest) for value in values]
            used = {name for text in (*texts, *blobs.values()) for name in find_digests(text)}
            sealed = [self.seal(thread, place, text) for (place, _), text in zip(values, texts, strict=True)]
            new = {name: self.seal(thread, name, text) for name, text in blobs.items()}
            try:
                async with self.tables.transaction(Precondition(thread, token, used - new.keys(), checkpoint)):
                    if new:
                        await self.tables.put_blobs(thread, new)
                    await put(sealed)
            except self.tables.errors as error:
                if BLOB_MISSING not in str(error):
                    raise describe("written", error) from error
                self.forget(thread)
                continue
            self._remember(thread, new)
            size = sum(map(len, (*texts, *new.values())))
            self._written[thread] = self._written.pop(thread, 0) + size
            if len(self._written) > MAX_COUNTED:  # nobody asks
                self._written.popitem(last=False)
            return
        raise CheckpointError("The session cannot be written: another process keeps deleting it.")

    async def decode(self, thread: str, channel: str, stored: bytes) -> Any:
        """Return the value of a stored text.

        Raises:
            CheckpointError: if the store fails, or the text or a blob is damaged.
            TypeError: if it is no text.
        """
        if type(stored) is not bytes:
            raise TypeError("a value is not stored as text")
        text = self._open(thread, channel, stored)
        return to_object(channel, await decode(text, partial(self._find, thread)))

    async def _find(self, thread: str, names: Sequence[str]) -> Mapping[str, bytes]:
        """Return the texts of blobs, and remember that they exist so that they are not written again."""
        with translating("read", self.tables.errors):
            blobs = await self.tables.find_blobs(thread, names)
            texts = {name: self._open(thread, name, stored) for name, stored in blobs.items()}
        for name, stored in blobs.items():
            if not is_encrypted(stored) and blob_digest(stored) != name:
                raise DamagedSessionError(f"A stored value is damaged: part {name} has been changed.")
        self._remember(thread, texts)
        return texts

    async def blobs_of(self, thread: str, texts: Iterable[tuple[str, bytes]]) -> set[str]:
        """Return the names of all blobs that stored texts use, each with its place, and those inside these blobs."""
        opened = [self._open(thread, place, stored) for place, stored in texts]
        unread = {name for text in opened for name in find_digests(text)}
        known = set(unread)
        while unread:
            batch = [unread.pop() for _ in range(min(PAGE, len(unread)))]
            inner = {name for text in (await self._find(thread, batch)).values() for name in find_digests(text)}
            unread |= inner - known
            known |= inner
        return known

    async def names(self, thread: str) -> tuple[list[str], list[str]]:
        """Return the names of a thread's blobs, and those of the results of steps."""
        with translating("read", self.tables.errors):
            names = await self.tables.blob_names(thread)
        steps = [name for name in names if name.startswith(_STEP)]
        return sorted(set(names) - set(steps)), steps

    async def steps(self, thread: str) -> AsyncIterator[tuple[str, bytes]]:
        """Yield the names and texts of all results of steps, as they are stored."""
        _, names = await self.names(thread)
        for start in range(0, len(names), PAGE):
            with translating("read", self.tables.errors):
                found = await self.tables.find_blobs(thread, names[start : start + PAGE])
            for entry in found.items():
                yield entry

    async def erase_blobs(self, thread: str, names: Sequence[str], token: int) -> None:
        """Delete blobs that nothing uses. Raise SessionBusyError if the lease with this token has been lost.

        All go in one transaction: a blob that stays, but lacks one inside it, could not be read when it is used again.
        """
        self.forget(thread)
        with translating("deleted", self.tables.errors):
            async with self.tables.transaction(Precondition(thread, token)):
                for start in range(0, len(names), PAGE):
                    await self.tables.erase_blobs(thread, names[start : start + PAGE])


class StepResults:
    """The step results of one thread. Implements `ragflow_lg.services.sessions.Steps`, which names the errors."""

    def __init__(self, values: ThreadValues, config: RunnableConfig) -> None:
        self._values = values
        self._config = config
        self._thread = thread_of(config)

    async def put(self, key: str, value: Any) -> None:
        """Store a result. It is durable when this method returns."""
        name = _STEP + key

        async def put(texts: Sequence[bytes]) -> None:
            await self._values.tables.put_blobs(self._thread, {name: texts[0]})

        await self._values.write(self._config, [(name, [value])], put)

    async def find(self, key: str) -> tuple[bool, Any]:
        """Return whether there is a result, and that result."""
        name = _STEP + key
        with translating("read", self._values.tables.errors):
            blobs = await self._values.tables.find_blobs(self._thread, [name])
            if name not in blobs:
                return False, None
            (value,) = await self._values.decode(self._thread, name, blobs[name])
            return True, value

    async def all(self) -> AsyncIterator[tuple[str, Any]]:
        """Yield all results with their keys."""
        async for name, stored in self._values.steps(self._thread):
            with translating("read", self._values.tables.errors):
                (value,) = await self._values.decode(self._thread, name, stored)
            yield name.removeprefix(_STEP), value
