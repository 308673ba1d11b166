"""Sends the journal's commands to Redis: a few at a time, and again if Redis is silent."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from ragflow_lg.base.errors import StreamError
from ragflow_lg.checkpoints.failures import plain_reason

MAX_CONNECTIONS = 16
MAX_WAIT_S = 120.0
"""How long a command waits at most, even if Redis answers others."""
PAUSE_S = 0.02
MAX_PAUSE_S = 0.5
BUSY_S = 0.1
"""A timeout that comes this much too late shows that this process was too busy to read the answer in time."""

_PASSING = (RedisConnectionError, RedisTimeoutError, OSError)

_T = TypeVar("_T")

logger = logging.getLogger(__name__)


class RedisCommands:
    """Commands that wait for their turn, in the order in which they come.

    A command fails when Redis has not answered any command for as long as its patience lasts. With many runs a command
    may wait longer than that for its turn, but not for a server that is silent.
    """

    def __init__(self, *, at_once: int = MAX_CONNECTIONS, timeout_s: float = 0.0) -> None:
        """Initialize. ``timeout_s`` is the client's timeout for a command."""
        self._slots = asyncio.Semaphore(at_once)
        self._timeout_s = timeout_s
        self._answered_s = 0.0
        """When Redis last answered."""

    async def ask(self, call: Callable[[], Awaitable[_T]], patience_s: float) -> _T:
        """Run a command, and run it again while Redis does not respond.

        Raises:
            StreamError: If Redis refuses the command, or has not answered any for ``patience_s`` seconds.
        """
        began_s = time.monotonic()
        async with self._slots:
            return await self._repeat(call, began_s, patience_s)

    async def _repeat(self, call: Callable[[], Awaitable[_T]], began_s: float, patience_s: float) -> _T:
        pause_s = PAUSE_S
        while True:
            sent_s = time.monotonic()
            if sent_s > self._deadline_s(began_s, patience_s):  # it has waited for its turn for too long
                raise _failure(TimeoutError())
            try:
                answer = await call()
            except _PASSING as error:
                now_s = time.monotonic()
                was_busy = isinstance(error, RedisTimeoutError) and 0 < self._timeout_s < now_s - sent_s - BUSY_S
                if was_busy:
                    self._answered_s = now_s  # whether Redis has answered is unknown
                if now_s + pause_s > self._deadline_s(began_s, patience_s):
                    raise _failure(error) from error
            except RedisError as error:
                raise _failure(error) from error
            else:
                self._answered_s = time.monotonic()
                return answer
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, MAX_PAUSE_S)

    def _deadline_s(self, began_s: float, patience_s: float) -> float:
        return min(max(began_s, self._answered_s) + patience_s, began_s + max(patience_s, MAX_WAIT_S))


def _failure(error: Exception) -> StreamError:
    logger.warning("event journal failed: %s", error)
    return StreamError(f"The event journal failed: {plain_reason(error)}")
