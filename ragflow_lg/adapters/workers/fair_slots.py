"""A limit on work at the same time that tenants share fairly."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import WorkLimitError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager


class FairSlots:
    """A number of slots. Tenants that wait take turns, and no tenant takes all slots if there is more than one.

    An instance belongs to one event loop.
    """

    def __init__(self, size: int, max_waiting: int, what: str = "for a worker process") -> None:
        """Initialize. ``max_waiting`` is the length of one tenant's queue; ``what`` is for messages."""
        self._what = what
        self._free = size
        self.max_tenant = max(1, size - 1)
        """How many slots one tenant may have."""
        self._max_waiting = max_waiting
        self._used: Counter[str] = Counter()
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def slot(self, tenant: str) -> AsyncGenerator[None]:
        """Hold a slot for the duration of the block.

        Raises:
            WorkLimitError: if too many of the tenant's requests are waiting.
        """
        ticket = self.request(tenant)
        try:
            await ticket
            yield
        finally:
            self.give_back(tenant, ticket)

    def request(self, tenant: str) -> asyncio.Future[None]:
        """Return a ticket, which is done as soon as the tenant has a slot. Pass it to `give_back` in any case.

        Raises:
            WorkLimitError: if too many of the tenant's requests are waiting.
        """
        queue = self._queues.setdefault(tenant, deque())
        if len(queue) >= self._max_waiting:
            raise WorkLimitError(
                f"{len(queue):,} tasks are already waiting {self._what}. Try again in a few seconds.", is_retryable=True
            )
        ticket = asyncio.get_running_loop().create_future()
        queue.append(ticket)
        self._admit()
        return ticket

    def give_back(self, tenant: str, ticket: asyncio.Future[None]) -> None:
        """Free the slot of a ticket, or stop waiting for one."""
        if ticket.done() and not ticket.cancelled():
            self._release(tenant)
            return
        ticket.cancel()
        with suppress(KeyError, ValueError):  # it may have left the queue already
            self._queues[tenant].remove(ticket)

    def _release(self, tenant: str) -> None:
        self._used[tenant] -= 1
        if not self._used[tenant]:
            del self._used[tenant]
        self._free += 1
        if tenant in self._queues:
            self._queues.move_to_end(tenant)
        self._admit()

    def _admit(self) -> None:
        """Assign free slots to waiting tenants in turn."""
        waiting = deque(self._queues)
        while waiting and self._free:
            tenant = waiting.popleft()
            queue = self._queues[tenant]
            while queue and queue[0].done():
                queue.popleft()
            if not queue:
                del self._queues[tenant]
            elif self._used[tenant] < self.max_tenant:
                self._free -= 1
                self._used[tenant] += 1
                queue.popleft().set_result(None)
                waiting.append(tenant)


class FairPermits:
    """A number of permits. Tenants that wait take turns.

    Once several tenants use the provider, none may have more than three quarters of the permits, so that the others
    need not wait for its answers.
    """

    def __init__(self, size: int) -> None:
        """Initialize."""
        self._size = size
        self._slots = FairSlots(size, sys.maxsize)
        self._slots.max_tenant = size
        self._tenants: set[str] = set()

    def add(self, tenant: str) -> None:
        """Note that a tenant uses the provider; ``""`` stands for those without settings of their own."""
        self._tenants.add(tenant)
        if len(self._tenants) > 1:
            self._slots.max_tenant = max(1, self._size - max(1, self._size // 4))

    def hold(self, tenant: str) -> AbstractAsyncContextManager[None]:
        """Return a context in which one of the tenant's calls may run."""
        return self._slots.slot(tenant)
