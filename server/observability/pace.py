"""Lets runs begin only as fast as this process keeps up with them."""

from __future__ import annotations

import asyncio
from collections import deque

BURST = 8
"""How many runs may begin at once."""
INTERVAL_S = 0.02
MAX_LAG_S = 0.1
"""If the event loop is later than this, no run begins."""
MAX_PAUSE_S = 0.5
"""The longest time without a beginning while runs wait."""


class Pace:
    """The beginnings of runs, in order.

    If hundreds of runs begin at once, each delays all others: none ends before nearly all of them do, and waits for
    a store or a client become too long. If they begin one after another, the first ones end early, and the last ones
    no later.
    """

    def __init__(self, burst: int = BURST, *, interval_s: float = INTERVAL_S, max_lag_s: float = MAX_LAG_S) -> None:
        self._burst = burst
        self._interval_s = interval_s
        self._max_lag_s = max_lag_s
        self._left = burst
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._ticking: asyncio.Task[None] | None = None

    @property
    def queue_length(self) -> int:
        """Number of runs that are waiting."""
        return len(self._waiting)

    async def wait(self) -> None:
        """Wait until the next run may begin."""
        if self._ticking is None or self._ticking.done():
            self._left = self._burst
            self._ticking = asyncio.create_task(self._tick())
        if self._left and not self._waiting:
            self._left -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        finally:
            if turn in self._waiting:
                self._waiting.remove(turn)

    async def _tick(self) -> None:
        """Measure the event loop's delay, and let runs begin, until no more are waiting."""
        loop = asyncio.get_running_loop()
        last_s = loop.time()
        while True:
            began_s = loop.time()
            await asyncio.sleep(self._interval_s)
            now_s = loop.time()
            if now_s - began_s - self._interval_s <= self._max_lag_s:
                self._left = self._burst
            else:
                self._left = 1 if now_s - last_s >= MAX_PAUSE_S else 0
            while self._left and self._waiting:
                turn = self._waiting.popleft()
                if not turn.done():
                    turn.set_result(None)
                    self._left, last_s = self._left - 1, now_s
            if not self._waiting and self._left == self._burst:
                return
