"""The parts of a session beside its checkpoints, blobs and step results: which are used, and deleting them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from langgraph.checkpoint.base import BaseCheckpointSaver

from ragflow_lg.checkpoints.steps.checkpoint_texts import stored_texts
from ragflow_lg.checkpoints.steps.preconditions import Precondition
from ragflow_lg.checkpoints.steps.saver_operations import CheckpointKey, InnerSaver, key_config
from ragflow_lg.checkpoints.steps.thread_values import ThreadValues
from ragflow_lg.checkpoints.values.marks import blob_digest, find_digests

_PAGE = 500
"""Number of parts that one command reads or deletes."""


class SessionParts:
    """The parts of all threads of a store. All methods raise CheckpointError if the store fails."""

    def __init__(self, inner: BaseCheckpointSaver[Any], values: ThreadValues) -> None:
        self._inner = inner
        self._values = values
        self._blobs = values.blobs
        self._errors = values.errors

    async def names(self, thread: str) -> Sequence[str]:
        """Return the names of a thread's blobs and steps."""
        with self._errors.translate("read"):
            return await self._blobs.names(thread)

    async def of_checkpoints(self, thread: str, keys: Iterable[CheckpointKey]) -> set[str]:
        """Return the hashes of the blobs that checkpoints use."""
        digests: set[str] = set()
        for key in keys:
            with self._errors.translate_read():
                packed = await self._inner.aget_tuple(key_config(key))
            if packed is not None:
                digests.update(digest for text in stored_texts(packed) for digest in find_digests(text.encode()))
        return await self._with_inner_parts(thread, digests)

    async def of_steps(self, thread: str, names: Sequence[str]) -> set[str]:
        """Return those of the names that belong to steps, and the blobs that the steps use."""
        steps: dict[str, bytes] = {}
        for start in range(0, len(names), _PAGE):
            with self._errors.translate("read"):
                found = await self._blobs.find(thread, names[start : start + _PAGE])
            steps.update({name: text for name, text in found.items() if blob_digest(text) != name})
        inner = {digest for text in steps.values() for digest in find_digests(text)}
        return steps.keys() | await self._with_inner_parts(thread, inner)

    async def _with_inner_parts(self, thread: str, digests: set[str]) -> set[str]:
        """Return the hashes together with those of all blobs inside these blobs."""
        known, unread = set(digests), sorted(digests)
        while unread:
            batch, unread = unread[:_PAGE], unread[_PAGE:]
            with self._errors.translate("read"):
                blobs = await self._blobs.find(thread, batch)
            inner = {digest for text in blobs.values() for digest in find_digests(text)} - known
            known |= inner
            unread += inner
        return known

    async def stored_bytes(self, thread: str, keys: Sequence[CheckpointKey], names: Sequence[str]) -> int:
        """Return the space that checkpoints and parts take in the store."""
        lister = cast("InnerSaver", self._inner)
        with self._errors.translate("read"):
            return await lister.stored_bytes(keys) + await self._blobs.stored_bytes(thread, names)

    async def erase(self, thread: str, names: Sequence[str], token: int) -> None:
        """Delete parts that nothing uses. Raise SessionBusyError if the lease with this token has been lost.

        All go in one transaction: a part that stays, but lacks one inside it, could not be read when it is used again.
        """
        if not names:
            return
        self._values.forget(thread)
        with self._errors.translate("deleted"):
            async with self._values.transaction(Precondition(thread, token)):
                for start in range(0, len(names), _PAGE):
                    await self._blobs.erase(thread, names[start : start + _PAGE])
