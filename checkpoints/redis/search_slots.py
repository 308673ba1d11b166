"""Slots for searches of checkpoints, which tenants share fairly.

Redis executes one command at a time. A search sorts all checkpoints of a session: if the session is long, it takes as
long as a hundred other commands, which wait for it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from ragflow_lg.adapters.workers.fair_slots import FairSlots

REST = 2.0
"""How long a tenant has to wait after a search, as a multiple of the time that it took."""

MAX_REST_S = 0.5
"""The longest wait. A search also takes long if Redis or this process is busy with others."""


class SearchSlots:
    """The slots of a process. A tenant has one, and Redis is free for others most of the time."""

    def __init__(self) -> None:
        self._slots = FairSlots(2, sys.maxsize, "for a search in Redis")  # no tenant has all of them

    @asynccontextmanager
    async def slot(self, tenant: str) -> AsyncGenerator[None]:
        """Hold a slot for a search in the block. Work for no tenant does not wait after it."""
        ticket = self._slots.request(tenant)
        rest_s = 0.0
        try:
            await ticket
            began_s = time.monotonic()
            try:
                yield
            finally:
                rest_s = min(REST * (time.monotonic() - began_s), MAX_REST_S) if tenant else 0.0
        finally:
            if rest_s:
                asyncio.get_running_loop().call_later(rest_s, self._slots.give_back, tenant, ticket)
            else:
                self._slots.give_back(tenant, ticket)
