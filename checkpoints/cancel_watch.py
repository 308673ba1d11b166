"""Blocks in which a session's turn can be cancelled."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol


class Watching(Protocol):
    """What passes requests to cancel on to the blocks."""

    def begin(self, watch: CancelWatch) -> None:
        """Begin a block."""
        ...

    async def end(self, watch: CancelWatch) -> None:
        """End a block."""
        ...


class CancelWatch(AbstractAsyncContextManager[None]):
    """A block; see `ragflow_lg.services.sessions.Cancels.watch`. It takes less memory than a generator."""

    def __init__(self, cancels: Watching, session: str, on_cancel: Callable[[], None]) -> None:
        self._cancels = cancels
        self.session = session
        self.on_cancel = on_cancel
        self.is_seen = False
        """Whether ``on_cancel`` has been called."""

    async def __aenter__(self) -> None:
        """Begin the block."""
        self._cancels.begin(self)

    async def __aexit__(self, *error: object) -> None:
        """End the block."""
        await self._cancels.end(self)
