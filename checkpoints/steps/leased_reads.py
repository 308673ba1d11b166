"""What has been read of sessions in the trip that leased them, until their holders ask for it."""

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
        place: dict[str, Any] = config.get("configurable", {})
        if not place.get(LEASE_TOKEN) or place.get("checkpoint_id") or place.get("checkpoint_ns"):
            return []
        token, read = self._reads.pop(thread_of(config), (0, None))
        return [read] if token == place[LEASE_TOKEN] else []  # pyright: ignore[reportReturnType] - no token is 0
