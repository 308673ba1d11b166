"""What a process holds of one run's entries, and how its readers hear of new ones."""

from __future__ import annotations

import asyncio

from ragflow_lg.server.streaming.event_window import Window

__all__ = ["Bell", "Feed"]


class Bell(asyncio.Event):
    """Rings once, for everybody who waits for it."""

    is_news = False
    """Whether it rang because there is something new."""


class Feed:
    """A window, and a bell that is rung when something has been added to it, or nothing has for ``quiet_s``.

    There is one timer for all readers, who may be many.
    """

    def __init__(self, window: Window, quiet_s: float) -> None:
        self.window = window
        self.readers = 0
        self.is_dropped = False
        self.bell = Bell()
        """What rings next; to be taken before the window is looked at."""
        self._quiet_s = quiet_s
        self._timer: asyncio.TimerHandle | None = None

    def ring(self) -> None:
        """Wake everybody who waits: there is news."""
        self._ring(True)

    async def heard(self, bell: Bell) -> bool:
        """Wait for a bell; tell whether there is news. Without any it rings within ``quiet_s``."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._quiet_s, self._tell_of_silence)
        await bell.wait()
        return bell.is_news

    def _tell_of_silence(self) -> None:
        self._timer = None
        self._ring(False)

    def _ring(self, is_news: bool) -> None:
        bell, self.bell = self.bell, Bell()
        bell.is_news = is_news
        bell.set()
