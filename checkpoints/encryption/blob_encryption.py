"""Blobs and results of steps, encrypted in the store.

The name of a blob is the hash of its content. The store has it under another name, which only the key can compute:
otherwise anybody with access to the store could find out whether a session contains a text, or shares one with another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from msgspec.structs import replace

from ragflow_lg.checkpoints.key_ring import KeyRing, split_mark
from ragflow_lg.checkpoints.sessions.session_pruning import is_part
from ragflow_lg.checkpoints.steps.preconditions import Blobs, OpenTransaction, Precondition

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

    async def put(self, thread: str, blobs: Mapping[str, bytes]) -> None:
        """Store blobs."""
        stored: dict[str, bytes] = {}
        for name, text in blobs.items():
            hidden = self._keys.hide_name(thread, name)
            stored[hidden] = self._keys.encrypt(thread, ["blob", hidden], bytes.fromhex(name) + text)
        await self.inner.put(thread, stored)

    def _decrypt(self, thread: str, stored_name: str, stored: bytes) -> tuple[str, bytes]:
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
        if missing:  # stored since another key, or none, encrypted
            older = [name for digest in missing for name in self._keys.older_names(thread, digest)]
            found.update(await self.inner.find(thread, older))
        return self._decrypt_all(thread, found)

    def _decrypt_all(self, thread: str, found: Mapping[str, bytes]) -> Mapping[str, bytes]:
        return dict(self._decrypt(thread, name, text) for name, text in found.items())

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
        """Return a function that opens transactions whose preconditions have the stored names of blobs.

        A write that relies on blobs with an older name fails, and is repeated with all of them: they get a new one.
        """

        def transaction(precondition: Precondition | None) -> AbstractAsyncContextManager[None]:
            if precondition is None:
                return begin(None)
            names = [self._keys.hide_name(precondition.thread, name) for name in precondition.blobs]
            return begin(replace(precondition, blobs=names))

        return transaction
