"""Turns that begin, a few at a time, and go on in the same way after a burst.

A turn reads and writes much before its first event. If a burst of turns begins all at once, each takes its steps in
turn with all others, and the first event of every one comes as late as that of the last. Turns therefore begin in
order. While more turns of their tenant are waiting than can begin at once, those that have begun wait until these have
their first events as well, and then go on a few at a time, so that the first ones end early.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable

from ragflow_lg.adapters.workers.fair_slots import FairSlots

MAX_STARTING = 6
"""How many turns may be between their request and their first event: enough to keep the stores busy."""

PATIENCE_S = 0.25
"""How long a turn may keep others from beginning or going on. A busy session, a slow store or a model take longer."""

HOLD_S = 1.0
"""How long a turn that has begun waits for others to begin, and for a place to go on."""

Hold = Callable[["asyncio.Future[None]"], None]
"""Lets a run wait before its next node until a future is done."""


class TurnStarts:
    """The turns of one process that have not had their first event, or wait for those."""

    def __init__(self, size: int = MAX_STARTING, patience_s: float = PATIENCE_S, hold_s: float = HOLD_S) -> None:
        self.patience_s = patience_s
        self.hold_s = hold_s
        self._size = size
        self.starting = FairSlots(size, sys.maxsize, "to begin a turn")
        self.playing = FairSlots(size, sys.maxsize, "to go on with a turn")
        self._counts: Counter[str] = Counter()
        """How many turns of each tenant are to have their first event."""
        self._held: dict[str, dict[TurnStart, None]] = {}

    async def enter(self, tenant: str) -> TurnStart:
        """Wait until a turn may begin. Tenants take turns. Call `TurnStart.end` in any case."""
        self._counts[tenant] += 1
        ticket = self.starting.request(tenant)
        try:
            await ticket
        except asyncio.CancelledError:
            self.starting.give_back(tenant, ticket)
            self.count_begun(tenant)
            raise
        return TurnStart(self, tenant, ticket)

    def count_begun(self, tenant: str) -> None:
        """Note that a turn has begun, or never will. After a burst, the turns of its tenant go on in order."""
        self._counts[tenant] -= 1
        if not self._counts[tenant]:
            del self._counts[tenant]
        if not self._has_burst(tenant):
            for turn in self._held.pop(tenant, {}):
                turn.go_on()

    def hold(self, turn: TurnStart) -> bool:
        """Make a turn wait while many others of its tenant have not begun. Return whether it waits.

        Beside a few, as in a steady stream of requests, a turn goes on at once: it would wait for ever new ones.
        """
        is_held = self._has_burst(turn.tenant)
        if is_held:
            self._held.setdefault(turn.tenant, {})[turn] = None
        return is_held

    def _has_burst(self, tenant: str) -> bool:
        return self._counts[tenant] >= self._size

    def release(self, turn: TurnStart) -> None:
        """Hold a turn no longer."""
        self._held.get(turn.tenant, {}).pop(turn, None)


class TurnStart:
    """A turn that may begin."""

    def __init__(self, starts: TurnStarts, tenant: str, ticket: asyncio.Future[None]) -> None:
        self.tenant = tenant
        self._starts = starts
        self._slots = starts.starting
        """What it takes a place of: first of those that begin, then of those that go on."""
        self._ticket: asyncio.Future[None] | None = ticket
        """Its place, until that is given back."""
        self._is_starting = True
        self._next: asyncio.Future[None] | None = None
        """Done when the turn may go on."""
        self._timer: asyncio.TimerHandle | None = self._call_later(starts.patience_s, self.begin)

    def begin(self, hold: Hold | None = None) -> None:
        """Return the place, since the turn has its first event. Repeated calls do nothing."""
        if not self._is_starting:
            return
        self._is_starting = False
        self._give_back()
        self._starts.count_begun(self.tenant)
        if hold is not None and self._starts.hold(self):
            self._next = asyncio.get_running_loop().create_future()
            self._call_later(self._starts.hold_s, self._free)
            hold(self._next)

    def go_on(self) -> None:
        """Go on as soon as there is a place among the turns that do."""
        self._starts.release(self)
        self._stop_timer()
        self._slots = self._starts.playing
        self._ticket = self._slots.request(self.tenant)
        self._ticket.add_done_callback(self._play)

    def end(self, release: Callable[[], None] | None = None) -> None:
        """Return the turn's place, and release what else it holds. Repeated calls do nothing."""
        self.begin()
        self._starts.release(self)
        self._give_back()
        if release is not None:
            release()

    def _play(self, ticket: asyncio.Future[None]) -> None:
        if self._ticket is not None:
            self._timer = self._call_later(self._starts.patience_s, self._give_back)
        self._free()

    def _free(self) -> None:
        """Hold the turn no longer, whether or not there is a place."""
        self._starts.release(self)
        if self._next is not None and not self._next.done():
            self._next.set_result(None)

    def _give_back(self) -> None:
        self._stop_timer()
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            self._slots.give_back(self.tenant, ticket)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _call_later(self, delay_s: float, work: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(delay_s, work)
