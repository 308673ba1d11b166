"""Limits on concurrent runs and on the length of their inputs, for all tenants together and for each tenant.

Runs above the limits wait, in order; one whose tenant is at its own limit delays no other. A run holds its input
several times: in its state, its events and its answer.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from contextlib import ExitStack

from msgspec import Struct

from ragflow_lg.base.errors import BusyError, QuotaError

MAX_INPUT_CHARS = 32_000_000


class Places(Struct, frozen=True):
    """The places that a run may take beside others of the same tenant and of the same embedded page; 0 for all."""

    tenant: str
    tenant_slots: int = 0
    page_key: str = ""
    """Id of the page's key, or ``""``."""
    page_slots: int = 0
    input_chars: int = 0
    """Length of the run's input."""
    run_id: str = ""
    """By which `RunSlots.position` finds the run while it waits."""

    def counters(self) -> tuple[tuple[str, int], ...]:
        """Return the names under which the run is counted, each with its limit."""
        own = (self.tenant, self.tenant_slots)
        return (own, (f"{self.tenant}\0{self.page_key}", self.page_slots)) if self.page_key else (own,)


class _InputLengths:
    """How long the inputs of some runs may be together. A single one may have any length."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._total = 0
        self._tenants: Counter[str] = Counter()

    def have_room(self, places: Places) -> bool:
        """Return whether there is room for another input. A tenant may use three quarters of the limit."""
        own, chars = self._tenants[places.tenant], places.input_chars
        is_first = own == 0
        return is_first or (self._total + chars <= self._limit and own + chars <= self._limit * 3 // 4)

    def count(self, places: Places, sign: int = 1) -> None:
        """Add the input of a run, or with the ``sign`` -1, remove it."""
        self._total += sign * places.input_chars
        self._tenants[places.tenant] += sign * places.input_chars
        if not self._tenants[places.tenant]:
            del self._tenants[places.tenant]


class _Waiting(Struct):
    places: Places
    slot: asyncio.Future[None]


class RunSlots:
    """The run slots in one process."""

    def __init__(
        self,
        slots: int,
        *,
        tenant_slots: int = 0,
        max_waiting: int = 0,
        wait_s: float = 0.0,
        max_input_chars: int = MAX_INPUT_CHARS,
    ) -> None:
        """Initialize.

        Args:
            slots: Maximum number of concurrent runs.
            tenant_slots: How many of them one tenant may have, unless a run says otherwise; 0 for all.
            max_waiting: How many runs may wait. A tenant that may not have all slots may not have all of these places.
            wait_s: How long a run waits before it is refused.
            max_input_chars: How long the inputs of the concurrent runs may be together, and those of the waiting ones.
        """
        self._slots = slots
        self._tenant_slots = tenant_slots
        self._max_waiting = max_waiting
        self._wait_s = wait_s
        self._running = 0
        self._in_use: Counter[str] = Counter()
        self._waiting: deque[_Waiting] = deque()
        self._inputs, self._waiting_inputs = _InputLengths(max_input_chars), _InputLengths(max_input_chars)

    @property
    def in_use(self) -> int:
        """Number of slots in use."""
        return self._running

    def in_use_by(self, tenant: str) -> int:
        """Return the number of slots that a tenant uses."""
        return self._in_use[tenant]

    @property
    def queue_length(self) -> int:
        """Number of runs waiting for a slot."""
        return len(self._waiting)

    def position(self, run_id: str) -> int:
        """Return the place of a run among those that wait, from 1; 0 if it does not wait."""
        ids = [waiting.places.run_id for waiting in self._waiting]
        return ids.index(run_id) + 1 if run_id in ids else 0

    async def acquire(self, run: Places | str) -> Callable[[], None]:
        """Acquire a slot as soon as one is free. Return a function that releases it and can be called repeatedly.

        Raises:
            BusyError: If too many runs are waiting or the wait takes too long. A `QuotaError` names the limit of the
                tenant or the page.
        """
        places = Places(run, self._tenant_slots) if isinstance(run, str) else run
        if self._is_free(places):
            self._take(places)
        else:
            if not self._wait_s or not self._may_wait(places):
                raise self._busy(places)
            await self._wait(places)
        slot = ExitStack()
        slot.callback(self.release, places)
        return slot.close

    def _may_wait(self, places: Places) -> bool:
        limit = self._max_waiting
        if 0 < places.tenant_slots < self._slots:
            limit = -(-limit * 3 // 4)
        waiting = sum(each.places.tenant == places.tenant for each in self._waiting)
        is_room = len(self._waiting) < self._max_waiting and waiting < limit
        return is_room and self._waiting_inputs.have_room(places)

    def _take(self, places: Places) -> None:
        self._running += 1
        for name, _ in places.counters():
            self._in_use[name] += 1
        self._inputs.count(places)

    def _is_free(self, places: Places) -> bool:
        is_free = self._running < self._slots and self._used_up(places) is None
        return is_free and self._inputs.have_room(places)

    def _used_up(self, places: Places) -> tuple[str, int] | None:
        """Return the counter, with its limit, that has no room for another run."""
        return next((each for each in places.counters() if 0 < each[1] <= self._in_use[each[0]]), None)

    async def _wait(self, places: Places) -> None:
        waiting = _Waiting(places, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._waiting_inputs.count(places)
        try:
            async with asyncio.timeout(self._wait_s):
                await waiting.slot
        except BaseException as error:
            if waiting.slot.done() and not waiting.slot.cancelled():
                self.release(places)  # the slot was granted just as the wait ended
            elif waiting in self._waiting:
                self._waiting.remove(waiting)
            if isinstance(error, TimeoutError):
                raise self._busy(places) from None
            raise
        finally:
            self._waiting_inputs.count(places, -1)

    def release(self, places: Places) -> None:
        """Return the places of a run."""
        self._running -= 1
        for name, _ in places.counters():
            self._in_use[name] -= 1
            if not self._in_use[name]:
                del self._in_use[name]
        self._inputs.count(places, -1)
        while waiting := next((each for each in self._waiting if self._is_free(each.places)), None):
            self._waiting.remove(waiting)
            if not waiting.slot.done():
                self._take(waiting.places)
                waiting.slot.set_result(None)

    def _busy(self, places: Places) -> BusyError:
        retry_s = max(1.0, self._wait_s / 2)
        if self._running < self._slots and (used_up := self._used_up(places)):
            owner = "tenant" if used_up[0] == places.tenant else "key of the page"
            return QuotaError("runs", used_up[1], owner, "Try again later.", renews_s=retry_s)
        if self._running < self._slots:
            return BusyError("The inputs of the concurrent runs are too long together. Try again later.", retry_s)
        return BusyError("The server has reached its limit on concurrent runs. Try again later.", retry_s)
