"""Permits for calls to providers and other servers, which tenants share fairly."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ragflow_lg.adapters.workers.fair_slots import FairSlots

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager


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
