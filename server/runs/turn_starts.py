"""Turns that begin, a few at a time.

A turn reads and writes much before its first event. If a burst of turns begins all at once, each takes its steps in
turn with all others, and the first event of every one comes as late as that of the last.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from ragflow_lg.adapters.workers.fair_slots import FairSlots

MAX_STARTING = 6
"""How many turns may be between their request and their first event: enough to keep the stores busy."""

PATIENCE_S = 0.25
"""How long a turn may keep others from beginning. A busy session, a slow store or a lease may take longer."""


class TurnStarts:
    """The turns of one process that have not had their first event."""

    def __init__(self, size: int = MAX_STARTING, patience_s: float = PATIENCE_S) -> None:
        self._slots = FairSlots(size, sys.maxsize, "to begin a turn")
        self._patience_s = patience_s

    async def enter(self, tenant: str) -> Callable[[], None]:
        """Wait until a turn may begin. Tenants take turns.

        Return a function to call with the turn's first event. It can be called repeatedly.
        """
        ticket = self._slots.request(tenant)
        try:
            await ticket
        except asyncio.CancelledError:
            self._slots.give_back(tenant, ticket)
            raise
        is_starting = True

        def leave() -> None:
            nonlocal is_starting
            if is_starting:
                is_starting = False
                timer.cancel()
                self._slots.give_back(tenant, ticket)

        timer = asyncio.get_running_loop().call_later(self._patience_s, leave)
        return leave
