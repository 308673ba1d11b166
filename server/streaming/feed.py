"""What a process holds of one run's entries, and how its readers hear of new ones."""

from __future__ import annotations

import asyncio

from server.streaming.window import Window

__all__ = ["Feed", "heard"]


class Feed:
    """A window, and a bell that is rung when something has been added to it."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.readers = 0
        self.is_dropped = False
        self._bell = asyncio.Event()

    @property
    def bell(self) -> asyncio.Event:
        """What rings next; to be taken before the window is looked at."""
        return self._bell

    def ring(self) -> None:
        """Wake everybody who waits."""
        self._bell.set()
        self._bell = asyncio.Event()


async def heard(bell: asyncio.Event, patience_s: float) -> bool:
    """Wait for a bell; tell whether it rang in time."""
    if bell.is_set():
        return True
    try:
        async with asyncio.timeout(patience_s):
            await bell.wait()
    except TimeoutError:
        return False
    return True
