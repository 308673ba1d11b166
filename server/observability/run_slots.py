"""Limits on concurrent runs, for all tenants together and for each tenant. Runs above the limits wait in order."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable

from msgspec import Struct

from ragflow_lg.base.errors import BusyError


class _Waiting(Struct):
    tenant: str
    slot: asyncio.Future[None]


class RunSlots:
    """The run slots in one process."""

    def __init__(self, slots: int, *, tenant_slots: int = 0, max_waiting: int = 0, wait_s: float = 0.0) -> None:
        """Initialize.

        Args:
            slots: Maximum number of concurrent runs.
            tenant_slots: How many of them one tenant may have; 0 for all.
            max_waiting: How many runs may wait.
            wait_s: How long a run waits before it is refused.
        """
        self._slots = slots
        self._tenant_slots = tenant_slots or slots
        self._max_waiting = max_waiting
        self._wait_s = wait_s
        self._in_use: Counter[str] = Counter()
        self._waiting: deque[_Waiting] = deque()

    @property
    def in_use(self) -> int:
        """Number of slots in use."""
        return self._in_use.total()

    @property
    def queue_length(self) -> int:
        """Number of runs waiting for a slot."""
        return len(self._waiting)

    async def acquire(self, tenant: str) -> Callable[[], None]:
        """Acquire a slot as soon as one is free. Return a function that releases it and can be called repeatedly.

        Raises:
            BusyError: If too many runs are waiting or the wait takes too long.
        """
        if not self._is_free(tenant):
            if len(self._waiting) >= self._max_waiting or not self._wait_s:
                raise self._busy(tenant)
            await self._wait(tenant)
        else:
            self._in_use[tenant] += 1
        return self._releaser(tenant)

    def _releaser(self, tenant: str) -> Callable[[], None]:
        has_slot = True

        def release() -> None:
            nonlocal has_slot
            if has_slot:
                has_slot = False
                self._release(tenant)

        return release

    def _is_free(self, tenant: str) -> bool:
        return self.in_use < self._slots and self._in_use[tenant] < self._tenant_slots

    async def _wait(self, tenant: str) -> None:
        waiting = _Waiting(tenant, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        try:
            async with asyncio.timeout(self._wait_s):
                await waiting.slot
        except BaseException as error:
            if waiting.slot.done() and not waiting.slot.cancelled():
                self._release(tenant)  # the slot was granted just as the wait ended
            elif waiting in self._waiting:
                self._waiting.remove(waiting)
            if isinstance(error, TimeoutError):
                raise self._busy(tenant) from None
            raise

    def _release(self, tenant: str) -> None:
        self._in_use[tenant] -= 1
        if not self._in_use[tenant]:
            del self._in_use[tenant]
        for waiting in list(self._waiting):
            if self.in_use >= self._slots:
                break
            if self._is_free(waiting.tenant):
                self._waiting.remove(waiting)
                if not waiting.slot.done():
                    self._in_use[waiting.tenant] += 1
                    waiting.slot.set_result(None)

    def _busy(self, tenant: str) -> BusyError:
        whose = "tenant" if self._in_use[tenant] >= self._tenant_slots else "server"
        return BusyError(
            f"The {whose} has reached its limit on concurrent runs. Try again later.", max(1.0, self._wait_s / 2)
        )
