"""A journal in this process's memory."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Sequence

from ragflow_lg.base.errors import StreamError
from ragflow_lg.server.streaming.journal import (
    MAX_RUN,
    QUIET_S,
    RETENTION_S,
    Bounds,
    Entry,
    Feed,
    RunHead,
    Window,
    gap_error,
    unknown_run,
)

MAX_BYTES = 256 * 1024 * 1024
MAX_OWNER_BYTES = 64 * 1024 * 1024
RESTART_EVENTS = 1_000_000
"""More events than any run has."""


class _Run(Feed):
    def __init__(self, head: RunHead, bounds: Bounds, quiet_s: float, first: int) -> None:
        super().__init__(Window(bounds, first), quiet_s)
        self.head = head
        self.first = first
        """The number before the first event."""
        self.is_over_limit = False
        """Whether it was removed because the runs of its owner had too many bytes."""
        self.is_read = False
        """Whether a client has had the end."""
        self.end_s = 0.0
        """When the run ended, by the clock; 0 while it is running."""


class MemoryJournal:
    """A journal for a single process, lost when the process ends. It contains at most ``max_bytes`` of data in total.

    The runs of one owner, such as a tenant, have at most ``max_owner_bytes``. Above that limit, the owner's runs that
    finished first are removed first, followed by the writing run's oldest events. Above the total limit, this happens
    to the runs of all owners.
    """

    is_shared = False

    def __init__(
        self,
        max_run: Bounds = MAX_RUN,
        *,
        max_bytes: int = MAX_BYTES,
        max_owner_bytes: int = MAX_OWNER_BYTES,
        retention_s: float = RETENTION_S,
        quiet_s: float = QUIET_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Initialize an empty journal. ``quiet_s`` is how long a reader waits before it receives an empty page."""
        self._max_run = max_run
        self._max_bytes = max_bytes
        self._max_owner_bytes = max_owner_bytes
        self._owner_bytes: Counter[str] = Counter()
        self.retention_s = retention_s
        self._quiet_s = quiet_s
        self._monotonic = monotonic
        self._runs: dict[str, _Run] = {}
        self._finished_runs: dict[str, _Run] = {}
        """The finished runs, in the order in which they ended."""
        self.bytes = 0
        """Total size of the stored data."""

    async def begin(self, head: RunHead, *, is_elsewhere: bool = False) -> None:
        """Create a run's stream."""
        if head.run_id in self._runs:
            raise StreamError(f"Run {head.run_id} already exists.")
        # An earlier process may have begun the run: the numbers that its followers have must not name other events.
        first = (head.takeovers + 1) * RESTART_EVENTS if is_elsewhere else 0
        self._runs[head.run_id] = _Run(head, self._max_run, self._quiet_s, first)

    async def claim(self, head: RunHead, previous: str) -> bool:
        """Make ``head.player`` the run manager of a run of an earlier process."""
        run = self._find(head.run_id)
        if run.head.player != previous:
            return False
        run.head = head
        return True

    async def append(self, run_id: str, data: Sequence[bytes], *, is_last: bool = False) -> None:
        """Add entries."""
        run = self._find(run_id)
        window = run.window
        before = window.bytes
        window.add(Entry(number, each) for number, each in enumerate(data, window.last + 1))
        self._count(run, window.bytes - before)
        if is_last:
            run.end_s = self._monotonic()
            self._finished_runs[run_id] = run
        self._shrink(run)
        run.ring()

    async def head(self, run_id: str) -> RunHead | None:
        """Return a run's head."""
        run = self._runs.get(run_id)
        return run.head if run is not None else None

    async def tail(self, run_id: str) -> Entry | None:
        """Return the newest entry."""
        window = self._find(run_id).window
        page = window.page(window.last - 1)
        return page[0] if page else None

    async def read(self, run_id: str, after: int) -> AsyncGenerator[Sequence[Entry]]:
        """Yield the entries and wait for more."""
        run = self._find(run_id)
        after = after or run.first
        while True:
            additions = run.additions
            if run.is_over_limit:
                raise StreamError(
                    f"The events of run {run_id} were removed: all runs of its tenant together have more than "
                    f"{self._max_owner_bytes:,} bytes. Its session contains the messages."
                )
            if run.is_dropped:
                raise unknown_run(run_id, self.retention_s, is_shared=False)
            page = run.window.page(after)
            if page is None:
                raise gap_error(run_id, after, run.window.first)
            if page:
                after = page[-1].id
                yield page
            elif not await run.wait(additions):
                yield []

    async def heartbeat(self, player: str, own_runs: Collection[str], followed_runs: Collection[str]) -> None:
        """Remove runs whose retention has expired."""
        until = self._monotonic() - self.retention_s
        for run_id, run in list(self._finished_runs.items()):
            if run.end_s > until:
                return
            self._forget(run_id)

    async def retire(self, player: str) -> None:
        """Do nothing, since no other process reads here."""

    async def alive(self, players: Collection[str]) -> set[str]:
        """Return an empty set, since no other process writes here."""
        return set()

    def wake(self, run_id: str) -> None:
        """Send readers of a run an empty page if there are no new entries."""
        if (run := self._runs.get(run_id)) is not None:
            run.ring_quietly()

    async def is_followed(self, run_id: str) -> bool:
        """Return False, since no other process reads here."""
        return False

    async def note_read(self, run_id: str) -> None:
        """Note that a client has had the end of a run."""
        self._find(run_id).is_read = True

    async def is_read(self, run_id: str) -> bool:
        """Return whether a client has had the end of a run."""
        return self._find(run_id).is_read

    async def aclose(self) -> None:
        """Remove everything."""
        for run_id in list(self._runs):
            self._forget(run_id)

    def _find(self, run_id: str) -> _Run:
        run = self._runs.get(run_id)
        if run is None:
            raise unknown_run(run_id, self.retention_s, is_shared=False)
        return run

    def _shrink(self, writing: _Run) -> None:
        owner = writing.head.owner
        if self._owner_bytes[owner] <= self._max_owner_bytes and self.bytes <= self._max_bytes:
            return
        for run_id, run in list(self._finished_runs.items()):
            if self._owner_bytes[owner] <= self._max_owner_bytes:
                break
            if run is not writing and run.head.owner == owner:
                run.is_over_limit = True
                self._forget(run_id)
        while self._owner_bytes[owner] > self._max_owner_bytes and (size := writing.window.drop()):
            self._count(writing, -size)
        for run_id, run in list(self._finished_runs.items()):
            if self.bytes <= self._max_bytes:
                break
            if run is not writing:
                self._forget(run_id)
        while self.bytes > self._max_bytes and (size := writing.window.drop()):
            self._count(writing, -size)

    def _count(self, run: _Run, size: int) -> None:
        self.bytes += size
        self._owner_bytes[run.head.owner] += size
        if not self._owner_bytes[run.head.owner]:
            del self._owner_bytes[run.head.owner]

    def _forget(self, run_id: str) -> None:
        run = self._runs.pop(run_id)
        self._finished_runs.pop(run_id, None)
        self._count(run, -run.window.bytes)
        run.is_dropped = True
        run.ring()
