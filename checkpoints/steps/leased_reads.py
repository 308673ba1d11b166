"""What has been read of sessions for the holders of their leases, until they ask for it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Generic, TypeVar

from langchain_core.runnables import RunnableConfig

from ragflow_lg.checkpoints.steps.saver_operations import thread_of
from ragflow_lg.services.sessions import LEASE_TOKEN

MAX_READS = 64

T = TypeVar("T")


class LeasedReads(Generic[T]):
    """The newest checkpoint of each thread, as its lease's holder would read it. Nobody else can change it."""

    def __init__(self) -> None:
        self._reads: OrderedDict[str, tuple[int, T]] = OrderedDict()

    def remember(self, thread: str, token: int, read: T) -> None:
        """Note what the lease with this token was read with."""
        self._reads[thread] = (token, read)
        if len(self._reads) > MAX_READS:
            self._reads.popitem(last=False)

    def forget(self, thread: str) -> None:
        """Forget a thread, because it changes or its lease ends."""
        self._reads.pop(thread, None)

    def take(self, config: RunnableConfig) -> list[T]:
        """Return what a lease's holder wants to read, or nothing if it must be read from the store."""
        wanted = token_of_newest(config)
        if not wanted:
            return []
        token, read = self._reads.pop(thread_of(config), (0, None))
        return [read] if token == wanted else []  # pyright: ignore[reportReturnType] - no token is 0


def token_of_newest(config: RunnableConfig) -> int:
    """Return the token of the lease whose holder reads the newest checkpoint; 0 if the config means something else."""
    place: dict[str, Any] = config.get("configurable", {})
    is_newest = not place.get("checkpoint_id") and not place.get("checkpoint_ns")
    return place.get(LEASE_TOKEN, 0) if is_newest else 0
