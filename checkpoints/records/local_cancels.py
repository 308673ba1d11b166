"""Requests to cancel within one process. The stores pass those of other processes on to it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from ragflow_lg.base.tasks import SharedTask
from ragflow_lg.checkpoints.records.run_records import hex_session


class LocalCancels:
    """The blocks of this process that wait for a request to cancel; see `ragflow_lg.services.sessions.Cancels`.

    A flag in the store remains until the session is leased again: the process may die before it has stored the end.
    """

    def __init__(self, listen: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Initialize. ``listen`` looks for the requests of other processes while there are blocks."""
        self._watches: dict[str, list[Callable[[], None]]] = {}
        self._listening = SharedTask(listen)

    @property
    def sessions(self) -> Sequence[str]:
        """The sessions for whose requests a block waits."""
        return list(self._watches)

    def cancel(self, session: str) -> None:
        """Cancel the session's turn at once."""
        for on_cancel in self._watches.pop(hex_session(session), ()):
            on_cancel()

    @asynccontextmanager
    async def watch(self, session: str, on_cancel: Callable[[], None]) -> AsyncGenerator[None]:
        """Call ``on_cancel`` once, on the next request inside the block."""
        session, watch = hex_session(session), lambda: on_cancel()
        self._watches.setdefault(session, []).append(watch)
        self._listening.start()
        try:
            yield
        finally:
            left = [other for other in self._watches.pop(session, ()) if other is not watch]
            if left:
                self._watches[session] = left

    async def aclose(self) -> None:
        """Stop listening."""
        await self._listening.aclose()
