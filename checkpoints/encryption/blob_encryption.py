"""Blobs and results of steps, encrypted in the store.

The name of a blob is the hash of its content. The store has it under another name, which only the key can compute:
otherwise anybody with access to the store could find out whether a session contains a text, or shares one with another.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec.structs import replace

from ragflow_lg.checkpoints.key_ring import KeyRing, split_mark
from ragflow_lg.checkpoints.sessions.session_pruning import is_part
from ragflow_lg.checkpoints.steps.preconditions import Blobs, OpenTransaction, Precondition

MAX_OLDER = 65_536
"""For how many blobs is remembered that they are stored under an older name."""
PAGE = 32
"""How many blobs are in memory at once to learn their names."""
_NAME_BYTES = 16


class EncryptedBlobs:
    """The blobs of a backend, encrypted. Callers use the names of the plain blobs.

    Reading raises SessionKeyError for a blob that cannot be decrypted.
    """

    def __init__(self, inner: Blobs, keys: KeyRing) -> None:
        self.inner = inner
        self._keys = keys
        self._older: OrderedDict[tuple[str, str], str] = OrderedDict()
        """The stored names of blobs that have been read under an older name, by thread and name."""

    async def put(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Store blobs."""
        await self.inner.put(thread, self._encrypt_all(thread, blobs))

    def _encrypt_all(self, thread: str, blobs: Mapping[str, bytes]) -> Mapping[str, bytes]:
        stored: dict[str, bytes] = {}
        for name, text in blobs.items():
            hidden = self._keys.hide_name(thread, name)
            stored[hidden] = self._keys.encrypt(thread, ["blob", hidden], bytes.fromhex(name) + text)
        return stored

    def decrypt(self, thread: str, stored_name: str, stored: bytes) -> tuple[str, bytes]:
        """Return the name and the text of a stored blob."""
        key, _ = split_mark(stored)
        if not key:
            return stored_name, stored
        text = self._keys.decrypt(thread, ["blob", stored_name], stored)
        return text[:_NAME_BYTES].hex(), text[_NAME_BYTES:]

    async def find(self, thread: str, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Return those of the requested blobs that exist."""
        names = {self._keys.hide_name(thread, digest): digest for digest in digests}
        found = dict(await self.inner.find(thread, list(names)))
        missing = [digest for hidden, digest in names.items() if hidden not in found]
        if missing:
            older = {name: digest for digest in missing for name in self._keys.older_names(thread, digest)}
            for name, text in (await self.inner.find(thread, list(older))).items():
                found[name] = text
                self._remember_older(thread, older[name], name)
        return self._decrypt_all(thread, found)

    def _decrypt_all(self, thread: str, found: Mapping[str, bytes]) -> Mapping[str, bytes]:
        return dict(self.decrypt(thread, name, text) for name, text in found.items())

    def _remember_older(self, thread: str, name: str, stored_name: str) -> None:
        self._older[thread, name] = stored_name
        if len(self._older) > MAX_OLDER:
            self._older.popitem(last=False)

    async def names(self, thread: str) -> list[str]:
        """Return the names of all of a thread's blobs. They are part of the encrypted blobs, which are read."""
        stored = [name for name in await self.inner.names(thread) if is_part(name)]
        names: dict[str, None] = {}
        for start in range(0, len(stored), PAGE):
            found = await self.inner.find(thread, stored[start : start + PAGE])
            names.update(dict.fromkeys(self._decrypt_all(thread, found)))
        return list(names)

    async def stored_bytes(self, thread: str, names: Sequence[str]) -> int:
        """Return the space that blobs take."""
        return await self.inner.stored_bytes(thread, self._stored_names(thread, names))

    async def erase(self, thread: str, names: Sequence[str]) -> None:
        """Delete blobs."""
        await self.inner.erase(thread, self._stored_names(thread, names))

    def _stored_names(self, thread: str, names: Sequence[str]) -> list[str]:
        return [
            stored
            for name in names
            for stored in (self._keys.hide_name(thread, name), *self._keys.older_names(thread, name))
        ]

    def guard(self, begin: OpenTransaction) -> OpenTransaction:
        """Return a function that opens transactions whose preconditions have the stored names of blobs."""

        @asynccontextmanager
        async def transaction(precondition: Precondition | None) -> AsyncGenerator[None]:
            if precondition is None or not precondition.blobs:
                async with begin(precondition):
                    yield
                return
            thread = precondition.thread
            places = [(thread, name) for name in precondition.blobs]
            names = [self._older.get(place) or self._keys.hide_name(*place) for place in places]
            try:
                async with begin(replace(precondition, blobs=names)):
                    yield
            except BaseException:
                for place in places:  # they may have been encrypted again
                    self._older.pop(place, None)
                raise

        return transaction
