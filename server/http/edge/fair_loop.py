"""An event loop in which tenants take turns, so that a busy one cannot delay the others.

An ordinary event loop calls what is ready in the order in which it became ready. If one tenant has a hundred runs, each
step of another tenant's run waits for a hundred others. Here, every tenant has a queue of its own. The tenant that has
used the least time is next, and after a short time the loop looks for new data.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, TypeVarTuple

_Arguments = TypeVarTuple("_Arguments")
_NO_TENANT = Context()

SLICE_S = 0.0002
"""How long calls of one tenant run before another tenant may be next."""

ROUND_S = 0.0005
"""How long calls run before the loop looks for new data."""

MAX_QUEUES = 10_000
"""How many queues are kept while they are empty, for the time that they have used."""

FindTenant = Callable[[Context | None], str]
"""Returns the tenant for whom something is called in a context, or in the current one; ``""`` if there is none."""


class Call(asyncio.Handle):
    """A call that is ready."""

    def run(self) -> None:
        """Call it, unless it has been cancelled. The loop's handler reports an exception."""
        if not self.cancelled():
            self._run()


class _Queue:
    """The calls of one tenant."""

    __slots__ = ("calls", "used_s")

    def __init__(self) -> None:
        self.calls: deque[Call] = deque()
        self.used_s = 0.0
        """How long its calls have run. A tenant that was idle begins with what the next one has used."""


class FairCalls:
    """The calls that are ready, by tenant."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Initialize. ``clock`` returns seconds."""
        self._clock = clock
        self._queues: dict[str, _Queue] = {}
        self._active: list[_Queue] = []
        """The queues that have calls."""
        self._used_s = 0.0
        """What the queue that came last had used."""

    def __bool__(self) -> bool:
        """Return whether any call is ready."""
        return bool(self._active)

    def add(self, tenant: str, call: Call) -> None:
        """Add a call to the end of its tenant's queue."""
        queue = self._queues.get(tenant)
        if queue is None:
            if len(self._queues) >= MAX_QUEUES:
                self._queues = {name: other for name, other in self._queues.items() if other.calls}
            queue = self._queues[tenant] = _Queue()
        if not queue.calls:
            queue.used_s = max(queue.used_s, self._used_s)
            self._active.append(queue)
        queue.calls.append(call)

    def run(self) -> None:
        """Run calls for about `ROUND_S`."""
        now = self._clock()
        until = now + ROUND_S
        while self._active and now < until:
            queue = min(self._active, key=_used) if len(self._active) > 1 else self._active[0]
            self._used_s = queue.used_s
            now = self._run_slice(queue, now)

    def _run_slice(self, queue: _Queue, began: float) -> float:
        """Run calls of one queue; return the time."""
        calls, now = queue.calls, began
        try:
            while calls and now - began < SLICE_S:
                calls.popleft().run()
                now = self._clock()
        finally:  # also after KeyboardInterrupt and SystemExit, which a handle raises
            queue.used_s += now - began
            if not calls:
                self._active.remove(queue)
        return now


def _used(queue: _Queue) -> float:
    return queue.used_s


def make_fair_loop(base: type[asyncio.AbstractEventLoop], find_tenant: FindTenant) -> asyncio.AbstractEventLoop:
    """Create an event loop of a class, in which tenants take turns. Calls without a tenant do not wait for them."""

    class FairLoop(base):
        def __init__(self) -> None:
            super().__init__()
            self._call_now: Any = super().call_soon
            self._fair_calls = FairCalls()
            self._is_scheduled = False

        def call_soon(
            self,
            callback: Callable[[*_Arguments], object],
            *args: *_Arguments,
            context: Context | None = None,
        ) -> asyncio.Handle:
            tenant = find_tenant(context)
            if not tenant:
                return self._call_now(callback, *args, context=context)
            call = Call(callback, args, self, context if context is not None else copy_context())
            self._fair_calls.add(tenant, call)
            self._schedule()
            return call

        def _schedule(self) -> None:
            if not self._is_scheduled:
                self._is_scheduled = True
                self._call_now(self._run_fair_calls, context=_NO_TENANT)

        def _run_fair_calls(self) -> None:
            self._is_scheduled = False
            try:
                self._fair_calls.run()
            finally:
                if self._fair_calls:
                    self._schedule()

    loop: Any = FairLoop()
    return loop
