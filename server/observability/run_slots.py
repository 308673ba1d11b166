"""How many runs are played at the same time, of all tenants and of one. Who comes later waits in order."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable

from msgspec import Struct

from ragflow_lg.base.errors import BusyError

__all__ = ["RunSlots"]


class _Waiting(Struct):
    tenant: str
    turn: asyncio.Future[None]


class RunSlots:
    """The places for runs of one process."""

    def __init__(self, slots: int, *, tenant_slots: int = 0, max_waiting: int = 0, wait_s: float = 0.0) -> None:
        """``tenant_slots`` is how many of them one tenant may have, 0 for all; ``wait_s`` how long anybody waits."""
        self._slots = slots
        self._tenant_slots = tenant_slots or slots
        self._max_waiting = max_waiting
        self._wait_s = wait_s
        self._taken: Counter[str] = Counter()
        self._waiting: deque[_Waiting] = deque()

    @property
    def in_use(self) -> int:
        """How many places are taken."""
        return self._taken.total()

    @property
    def queue_length(self) -> int:
        """How many wait for one."""
        return len(self._waiting)

    async def acquire(self, tenant: str) -> Callable[[], None]:
        """Take a place, as soon as there is one; give what gives it back, once however often it is called.

        Raises:
            BusyError: if too many wait, or it takes too long.
        """
        if not self._is_free(tenant):
            if len(self._waiting) >= self._max_waiting or not self._wait_s:
                raise self._busy(tenant)
            await self._wait(tenant)
        else:
            self._taken[tenant] += 1
        return self._given_back(tenant)

    def _given_back(self, tenant: str) -> Callable[[], None]:
        is_held = True

        def give_back() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                self._free(tenant)

        return give_back

    def _is_free(self, tenant: str) -> bool:
        return self.in_use < self._slots and self._taken[tenant] < self._tenant_slots

    async def _wait(self, tenant: str) -> None:
        waiting = _Waiting(tenant, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        try:
            async with asyncio.timeout(self._wait_s):
                await waiting.turn
        except BaseException as error:
            if waiting.turn.done() and not waiting.turn.cancelled():
                self._free(tenant)  # the place came with the end of patience
            elif waiting in self._waiting:
                self._waiting.remove(waiting)
            if isinstance(error, TimeoutError):
                raise self._busy(tenant) from None
            raise

    def _free(self, tenant: str) -> None:
        self._taken[tenant] -= 1
        if not self._taken[tenant]:
            del self._taken[tenant]
        for waiting in list(self._waiting):
            if self.in_use >= self._slots:
                break
            if self._is_free(waiting.tenant):
                self._waiting.remove(waiting)
                if not waiting.turn.done():
                    self._taken[waiting.tenant] += 1
                    waiting.turn.set_result(None)

    def _busy(self, tenant: str) -> BusyError:
        whose = "tenant" if self._taken[tenant] >= self._tenant_slots else "server"
        return BusyError(f"The {whose} plays as many runs as it may. Ask again in a while.", max(1.0, self._wait_s / 2))
