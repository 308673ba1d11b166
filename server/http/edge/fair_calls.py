"""Which of the calls that are ready an event loop runs next, so that a busy tenant cannot delay the others.

An ordinary event loop calls what is ready in the order in which it became ready. If one tenant has a hundred runs, each
step of another tenant's run waits for a hundred others. Here, every tenant has a queue of its own. The tenant that has
used the least time is next, and after a short time the loop looks for new data.

Being next is not enough: a turn has hundreds of steps, and each would wait until the call that is running returns.
Tenants with a backlog therefore use at most a share of the time that others without one leave, while they are present.
The loop is then often idle when their next step becomes ready. Nothing can interrupt a long call, such as one for a
value of megabytes: after it, its tenant waits the longer, so that the others have had many steps before the next one.
Work in a thread counts as a call does, because it holds the interpreter, or a processor.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

SLICE_S = 0.0002
"""How long calls of one tenant run before another tenant may be next."""

ROUND_S = 0.0005
"""How long calls run before the loop looks for new data."""

SHARE = 0.25
"""The share that tenants with a backlog may use of the time that light tenants leave, while they are present.

Those that have calls divide it.

Of all time, it would be too much for a loop that is busy with light tenants: they would get a backlog themselves.
"""

BACKLOG_S = 0.25
"""A tenant has a backlog if its calls have run for so long while its queue did not become empty.

The time that they wait does not count: a tenant that others delay would get a backlog by that.
"""

MAX_BACKLOG_S = 0.5
"""How much of that time counts at most, so that a tenant soon has no backlog after it has become idle."""

REST = 5
"""How many seconds of that time are forgotten in a second in which the queue is empty."""

MOST_LIGHT = 0.95
"""How much of the time light tenants can use; the rest is left, so that the others never stop."""

CREDIT_S = 0.02
"""How much of an unused share a tenant may use later."""

SAVED_S = 0.05
"""How much of the time that a tenant did not use makes it the next one later."""

LONG_S = 0.01
"""A call is long from here on. After one that is twice as long, its tenant waits for twice the duration, and so on.

Processor time counts: a call that lasts long because a thread holds the interpreter is not its tenant's fault.
"""

MOST_OWED_S = 1.0
"""How long a tenant waits at most after a long call."""

PRESENT_S = 0.2
"""How long a tenant is present after its last call."""

REPORT_S = 60.0
"""How often a tenant is reported at most that is in the way of others."""

MAX_QUEUES = 10_000
"""How many queues are kept while they are empty, for the time that they have used."""


class Call(asyncio.Handle):
    """A call that is ready."""

    def run(self) -> None:
        """Call it, unless it has been cancelled. The loop's handler reports an exception."""
        if not self.cancelled():
            self._run()


class _Queue:
    """The calls of one tenant."""

    __slots__ = (
        "backlog_s",
        "calls",
        "credit_s",
        "emptied_s",
        "is_active",
        "left_s",
        "owed_s",
        "reported_s",
        "seen_s",
        "tenant",
        "used_s",
    )

    def __init__(self, tenant: str, now: float, left_s: float = 0.0) -> None:
        self.tenant = tenant
        self.calls: deque[Call] = deque()
        self.is_active = False
        """Whether it is among those that have calls. The last one may add another one while it runs."""
        self.used_s = 0.0
        """How long its calls have run. A tenant that was idle begins with little less than the next one has used."""
        self.credit_s = CREDIT_S
        """How long its calls may run while others are present, at `seen_s`."""
        self.owed_s = 0.0
        """How long its next call waits for others after a long one, at `seen_s`."""
        self.left_s = left_s
        """The time that light tenants had left, at `seen_s`."""
        self.backlog_s = 0.0
        """How long its calls have run, less its rests."""
        self.seen_s = self.emptied_s = now
        """When the credit was counted, and when the queue became empty, or else a thread ended."""
        self.reported_s = -REPORT_S

    def is_light(self) -> bool:
        """Return whether it has neither a backlog nor long calls."""
        return self.owed_s <= 0 and self.backlog_s <= BACKLOG_S

    def has_credit(self) -> bool:
        """Return whether its calls may run while light tenants are present."""
        return self.credit_s > 0 and self.owed_s <= 0

    def refill(self, now: float, left_s: float, share: float = SHARE) -> None:
        """Count the time since the last look, and the share of what light tenants have left of it."""
        self.credit_s = min(self.credit_s + (left_s - self.left_s) * share, CREDIT_S)
        self.left_s = left_s
        self.wait_until(now)

    def wait_until(self, now: float) -> None:
        """Count the time since the last look as time that others had."""
        self.owed_s = max(self.owed_s - (now - self.seen_s), 0.0)
        self.seen_s = now

    def rest(self, now: float, used_s: float = 0.0) -> None:
        """Count the time since the queue became empty, or a thread ended. A thread has used ``used_s`` of it."""
        self.backlog_s = max(self.backlog_s - max(now - self.emptied_s - used_s, 0.0) * REST, 0.0)
        self.emptied_s = now

    def pay(self, used_s: float) -> None:
        """Count the time that its calls or threads have run. After a long time, the next call waits."""
        self.used_s += used_s
        self.backlog_s = min(self.backlog_s + used_s, MAX_BACKLOG_S)
        self.credit_s = max(self.credit_s - used_s, -CREDIT_S)
        if used_s > LONG_S:
            self.owed_s = min(self.owed_s + used_s * used_s / LONG_S, MOST_OWED_S)


class FairCalls:
    """The calls that are ready, by tenant."""

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        processor_clock: Callable[[], float] = time.thread_time,
        report: Callable[[str], None] = lambda tenant: None,
    ) -> None:
        """Initialize. The clocks return seconds; ``processor_clock`` those that the thread has used.

        ``report`` is called with the name of a tenant that is in the way of others, at most once in `REPORT_S`.
        """
        self._report = report
        self._clock = clock
        self._processor_clock = processor_clock
        self._queues: dict[str, _Queue] = {}
        self._light: list[tuple[float, int, _Queue]] = []
        """The light queues that have calls: a heap by the time that they have used, and then by when they were put.

        A queue to which a thread has added long work is found when it comes first.
        """
        self._others: list[_Queue] = []
        """The other queues that have calls. They are looked at one by one, but there are few of them."""
        self._numbers = count()
        self._looked_s, self._processor_s = -LONG_S, 0.0
        """When the processor time was looked at, and what it was."""
        self._used_s = 0.0
        """What a queue has used that comes next about now. It never falls.

        It rises with the share that each of the waiting tenants could use: otherwise, those who begin with less than
        it, one after the other, would keep those who have used more from ever coming next.
        """
        self._light_s = 0.0
        """How long the calls of light queues have run."""
        self._latest = self._other = _Queue("", 0.0)
        """The light queue whose calls ran last, and another one whose calls ran before."""
        self._latest_s = self._other_s = -PRESENT_S
        """When they ran."""

    def __bool__(self) -> bool:
        """Return whether any call is ready."""
        return bool(self._light or self._others)

    def add(self, tenant: str, call: Call) -> None:
        """Add a call to the end of its tenant's queue."""
        queue = self._queues.get(tenant)
        if queue is None:
            if len(self._queues) >= MAX_QUEUES:
                self._queues = {name: other for name, other in self._queues.items() if other.is_active}
            now = self._clock()
            queue = self._queues[tenant] = _Queue(tenant, now, now - self._light_s)
        if not queue.is_active:
            queue.is_active = True
            queue.used_s = max(queue.used_s, self._used_s - SAVED_S)
            queue.rest(self._clock())
            self._put(queue)
        queue.calls.append(call)

    def note_thread(self, tenant: str, used_s: float) -> None:
        """Count processor time of a thread, which may have held the interpreter as a call does."""
        if (queue := self._queues.get(tenant)) is not None:
            now = self._clock()
            if not queue.is_active:
                queue.rest(now, used_s)
            queue.wait_until(now)  # what follows has not passed
            queue.pay(used_s)

    def run(self) -> bool:
        """Run calls for about `ROUND_S`. Return False if none may run now: their tenants have used their shares."""
        now = self._clock()
        if now - self._looked_s > LONG_S / 2:  # looking takes as long as a short call
            self._looked_s, self._processor_s = now, self._processor_clock()
        until = now + ROUND_S
        while now < until:
            queue = self._next(now)
            if queue is None:
                return False
            self._used_s = max(self._used_s, queue.used_s)
            now = self._run_slice(queue, now)
            if self._is_in_the_way(queue, now):
                if now - queue.reported_s >= REPORT_S:
                    queue.reported_s = now
                    self._report(queue.tenant)
                break  # data that has arrived may be for those who should not wait
        return True

    def _next(self, now: float) -> _Queue | None:
        """Return the queue of the tenant that has used the least time, of those that may run.

        Those with a backlog whose share is used are last: others may soon have none if they are not delayed.
        """
        left_s = now - self._light_s
        light = self._light
        while light and not light[0][2].is_light():
            self._others.append(heappop(light)[2])
        if self._others:
            self._look_at_others(now, left_s)
        free = [queue for queue in self._others if queue.has_credit() or not self._is_in_the_way(queue, now)]
        if light:
            free.append(light[0][2])
        if not free:
            return None
        queue = min(free, key=_order)
        if light and queue is light[0][2]:
            heappop(light)
            queue.refill(now, left_s)
        else:
            self._others.remove(queue)
        return queue

    def _look_at_others(self, now: float, left_s: float) -> None:
        """Count the time for queues that are not light, and put those that have become light among the light ones."""
        others, self._others = self._others, []
        share = SHARE / len(others)
        for queue in others:
            queue.refill(now, left_s, share)
            self._put(queue)

    def _put(self, queue: _Queue) -> None:
        """Put a queue among those that have calls."""
        if queue.is_light():
            heappush(self._light, (queue.used_s, next(self._numbers), queue))
        else:
            self._others.append(queue)

    def _is_in_the_way(self, queue: _Queue, now: float) -> bool:
        """Return whether a queue is not light while other, light tenants are present."""
        if queue.is_light():
            return False
        is_latest = queue is self._latest
        other, other_s = (self._other, self._other_s) if is_latest else (self._latest, self._latest_s)
        return now - other_s < PRESENT_S and other.is_light()

    def _run_slice(self, queue: _Queue, began: float) -> float:
        """Run calls of one queue, which is put back if it has more; return the time."""
        calls, now = queue.calls, began
        try:
            while calls and now - began < SLICE_S:
                calls.popleft().run()
                now = self._clock()
        finally:  # also after KeyboardInterrupt and SystemExit, which a handle raises
            used_s = now - began
            if used_s > LONG_S:
                used_s = min(used_s, self._processor_clock() - self._processor_s)
            queue.pay(used_s)
            if used_s > LONG_S:
                queue.owed_s += used_s  # its own time has not passed
            self._used_s += used_s / (len(self._light) + len(self._others) + 1)
            if queue.is_light():
                self._light_s += used_s * MOST_LIGHT
                self._note_present(queue, now)
            if calls:
                self._put(queue)
            else:
                queue.is_active = False
                queue.emptied_s = now
        return now

    def _note_present(self, queue: _Queue, now: float) -> None:
        if queue is not self._latest:
            self._latest, self._other, self._other_s = queue, self._latest, self._latest_s
        self._latest_s = now


def _order(queue: _Queue) -> tuple[bool, float]:
    return queue.backlog_s > BACKLOG_S and queue.credit_s <= 0, queue.used_s
