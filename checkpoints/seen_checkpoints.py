"""The checkpoints that this process has stored or read last, of each thread and namespace."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from ragflow_lg.checkpoints.saver_operations import CheckpointKey

_MAX_SEEN = 4096


class _Seen(NamedTuple):
    """The ids of the checkpoints that have been seen last, and of the newest of all."""

    last: str
    newest: str


class SeenCheckpoints:
    """The newest ones of up to `_MAX_SEEN` threads and namespaces."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], _Seen] = OrderedDict()

    def remember(self, key: CheckpointKey) -> None:
        """Note that a checkpoint has been stored or read."""
        thread, namespace, checkpoint = key
        before = self._seen.pop((thread, namespace), None)
        self._seen[thread, namespace] = _Seen(checkpoint, max(checkpoint, before.newest if before else ""))
        if len(self._seen) > _MAX_SEEN:
            self._seen.popitem(last=False)

    def newest(self, key: CheckpointKey) -> str | None:
        """Return the id of the newest checkpoint in the thread and the namespace of a key, or None if none is known."""
        seen = self._seen.get(key[:2])
        return seen.newest if seen is not None else None

    def is_last(self, key: CheckpointKey) -> bool:
        """Return whether no other checkpoint has been seen since in the thread and the namespace of this one."""
        seen = self._seen.get(key[:2])
        return seen is not None and seen.last == key.checkpoint

    def forget(self, thread: str) -> None:
        """Forget the checkpoints of a thread."""
        for key in [key for key in self._seen if key[0] == thread]:
            del self._seen[key]
