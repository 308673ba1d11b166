"""A process's copy of the newest entries of one run, and how its readers are notified of new ones."""

from __future__ import annotations

import asyncio

from ragflow_lg.server.streaming.event_window import Window

__all__ = ["Bell", "Feed"]


class Bell(asyncio.Event):
    """A notification that fires once, for all who wait for it."""

    is_news = False
    """Whether it fired because of new entries, and not because of a quiet period."""


class Feed:
    """A window with a bell that rings after every addition, or after ``quiet_s`` without one.

    All readers share one timer, since there may be many.
    """

    def __init__(self, window: Window, quiet_s: float) -> None:
        self.window = window
        self.readers = 0
        self.is_dropped = False
        self.bell = Bell()
        """The bell that rings next; fetch it before looking at the window."""
        self._quiet_s = quiet_s
        self._timer: asyncio.TimerHandle | None = None

    def ring(self) -> None:
        """Wake all waiting readers: there are new entries."""
        self._ring(True)

    async def wait_for(self, bell: Bell) -> bool:
        """Wait for a bell; return whether there are new entries. Without any it rings within ``quiet_s``."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._quiet_s, self._ring_quietly)
        await bell.wait()
        return bell.is_news

    def _ring_quietly(self) -> None:
        self._timer = None
        self._ring(False)

    def _ring(self, is_news: bool) -> None:
        bell, self.bell = self.bell, Bell()
        bell.is_news = is_news
        bell.set()
