"""Journals, which store run events so that they can be read again, in this process and in others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct

from ragflow_lg.base.errors import StreamGapError, StreamUnknownError
from ragflow_lg.runs.wire.wire_events import Envelope
from ragflow_lg.server.streaming.event_codec import RunEnd, StreamEvent, decode_entry


class Entry(NamedTuple):
    """One entry in a journal. ``id`` counts from 1 in each run."""

    id: int
    data: bytes

    @property
    def event(self) -> StreamEvent | RunEnd:
        """The event, or the end of the run.

        Raises:
            StreamError: If the data has another form.
        """
        return decode_entry(self.data)


class Bounds(Struct, frozen=True):
    """Upper limits for a window, which always keeps at least one entry."""

    entries: int
    bytes: int


PAGE = Bounds(64, 64 * 1024)
"""Maximum page size for followers, and therefore also the most that a slow follower keeps in memory."""


class Extent:
    """Determines which entries in a stream are within its bounds when the entries themselves are stored elsewhere."""

    def __init__(self, bounds: Bounds, last: int = 0, count: int = 0) -> None:
        """Start with ``count`` stored entries up to ``last``. Their sizes are unknown and counted as 0."""
        self._bounds = bounds
        self._sizes: deque[int] = deque([0] * count)
        self._bytes = 0
        self.last = last
        """The newest entry's id."""

    @property
    def first(self) -> int:
        """Id of the oldest entry within the bounds. The newest one always is."""
        return self.last - len(self._sizes) + 1

    def add(self, size: int) -> None:
        """Add an entry of ``size`` bytes."""
        self.last += 1
        self._sizes.append(size)
        self._bytes += size
        while len(self._sizes) > 1 and (len(self._sizes) > self._bounds.entries or self._bytes > self._bounds.bytes):
            self._bytes -= self._sizes.popleft()


class Window:
    """A stream's newest entries within the bounds."""

    def __init__(self, bounds: Bounds, last: int = 0) -> None:
        """Start empty. ``last`` is the id of the newest entry before the window."""
        self._bounds = bounds
        self._entries: list[Entry] = []
        self.last: int = last
        """The newest entry's id."""
        self.bytes = 0
        """Total size of the data in the window."""

    @property
    def first(self) -> int:
        """Id of the oldest entry in the window, or ``last + 1`` if it is empty."""
        return self._entries[0].id if self._entries else self.last + 1

    def add(self, entries: Iterable[Entry]) -> None:
        """Add newer entries. Known ids are skipped. If there is a gap in the ids, everything older is dropped."""
        for entry in entries:
            if entry.id <= self.last:
                continue
            if entry.id != self.last + 1:
                self._entries.clear()
                self.bytes = 0
            self._entries.append(entry)
            self.last = entry.id
            self.bytes += len(entry.data)
        while len(self._entries) > self._bounds.entries or self.bytes > self._bounds.bytes:
            if not self.drop():
                return

    def drop(self) -> int:
        """Drop the oldest entry unless it is the only one. Return its size, or 0."""
        if len(self._entries) < 2:
            return 0
        size = len(self._entries.pop(0).data)
        self.bytes -= size
        return size

    def page(self, after: int) -> list[Entry] | None:
        """Return up to one `PAGE` of entries after ``after``, or None if some of them have been dropped."""
        if after >= self.last:
            return []
        start = after + 1 - self.first
        if start < 0:
            return None
        return first_page(self._entries[start : start + PAGE.entries])


def first_page(entries: Iterable[Entry]) -> list[Entry]:
    """Return the first entries, up to one `PAGE`, but at least one if there are any."""
    page: list[Entry] = []
    size = 0
    for entry in entries:
        size += len(entry.data)
        if page and (size > PAGE.bytes or len(page) == PAGE.entries):
            break
        page.append(entry)
    return page


class Feed:
    """A window with a bell that rings after additions, or after ``quiet_s`` without any.

    All readers share one timer, since there may be many.
    """

    def __init__(self, window: Window, quiet_s: float) -> None:
        self.window = window
        self.readers = 0
        self.is_dropped = False
        self.additions = 0
        """How often entries were added. Get it before looking at the window."""
        self._quiet_s = quiet_s
        self._waiters: list[asyncio.Future[bool]] = []
        self._timer: asyncio.TimerHandle | None = None

    def ring(self, *, is_news: bool = True) -> None:
        """Wake all waiting readers because there are new entries, or although there are none."""
        self.additions += is_news
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(is_news)

    async def wait(self, additions: int) -> bool:
        """Wait until there have been more additions. Return False after ``quiet_s`` without any."""
        if additions != self.additions:
            return True
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._quiet_s, self.ring_quietly)
        self._waiters.append(waiter := asyncio.get_running_loop().create_future())
        return await waiter

    def ring_quietly(self) -> None:
        """Wake all waiting readers although there are no new entries."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self.ring(is_news=False)


MAX_RUN = Bounds(20_000, 16 * 1024 * 1024)
"""Limits for one run, far above what a turn usually produces."""

RETENTION_S = 300.0
"""How long a finished run's events are stored."""

QUIET_S = 5.0
"""How long a reader waits before it receives an empty page."""


QUEUED = "queue"
"""The run manager of a run that waits for a worker."""

LEFT = "left"
"""The run manager of a run that an earlier process of this server has left, until this process continues it."""


class RunHead(Struct, frozen=True):
    """The data known about a run before its first event."""

    envelope: Envelope
    player: str
    """Id of the run manager executing the run."""
    owner: str = ""
    """Who can follow the run, as in `PlaySpec`. Stored without being interpreted."""
    process: str = ""
    """The run manager's process, as in the leases of its sessions."""
    takeovers: int = 0
    """How often the run was taken over because its process had died."""
    policy: str = ""
    """What happens when the run has no followers; ``""`` in the head of an earlier version."""

    @property
    def run_id(self) -> str:
        """The run's id, RAGFlow's ``message_id``."""
        return self.envelope.message_id


class Journal(Protocol):
    """Run events, each stored as an entry. Entries are numbered from 1 in each run.

    A run's entries are written in order by one run manager. A journal is bounded: a long run's oldest entries are
    dropped, and a finished run is removed after `retention_s`. All methods raise StreamError if the journal fails.
    """

    @property
    def retention_s(self) -> float:
        """How long a finished run can be followed, in seconds."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether other processes read this journal, and can continue its runs."""
        ...

    async def begin(self, head: RunHead, *, is_elsewhere: bool = False) -> None:
        """Create a run's stream. ``is_elsewhere`` means that another process will write it."""
        ...

    async def claim(self, head: RunHead, previous: str) -> bool:
        """Make ``head.player`` the run manager for a run, after its newest entry, because ``previous`` has stopped.

        Returns False if another run manager claimed it first.
        """
        ...

    async def append(self, run_id: str, data: Sequence[bytes], *, is_last: bool = False) -> None:
        """Add entries. ``is_last`` closes the run. Returns once every reader can see them."""
        ...

    async def head(self, run_id: str) -> RunHead | None:
        """Return a run's head, or None if the run is unknown."""
        ...

    async def tail(self, run_id: str) -> Entry | None:
        """Return a run's newest entry, or None if it has no entries."""
        ...

    def read(self, run_id: str, after: int) -> AsyncGenerator[Sequence[Entry]]:
        """Yield the entries after ``after`` page by page and wait for more. An empty page means a quiet period.

        The iterator never ends by itself.

        Raises:
            StreamGapError: If entries after ``after`` have been dropped.
            StreamUnknownError: If the run has been removed in the meantime.
        """
        ...

    async def heartbeat(self, player: str, own_runs: Collection[str], followed_runs: Collection[str]) -> None:
        """Report that a run manager is alive, which runs it is executing, and which others' runs it has followers for.

        A report is valid for `alive_s`. Repeat it well within that time.
        """
        ...

    async def retire(self, player: str) -> None:
        """Report that a run manager has stopped."""
        ...

    async def alive(self, players: Collection[str]) -> set[str]:
        """Return those run managers that have reported recently."""
        ...

    def wake(self, run_id: str) -> None:
        """Send readers of a run an empty page if there are no new entries."""
        ...

    async def is_followed(self, run_id: str) -> bool:
        """Check whether a run manager other than the run's own has, or recently had, followers for the run."""
        ...

    async def note_read(self, run_id: str) -> None:
        """Note that a client has had the end of a run."""
        ...

    async def is_read(self, run_id: str) -> bool:
        """Return whether a client has had the end of a run."""
        ...

    async def aclose(self) -> None:
        """Release all resources. Nothing can be read afterwards."""
        ...


def gap_error(run_id: str, after: int, first: int) -> StreamGapError:
    """Build the error for a follower whose next event has been dropped."""
    return StreamGapError(
        f"Events {after + 1} to {first - 1} of run {run_id} have been dropped: the journal is bounded, and this reader "
        f"was too slow or started too late. Continue from event {first}, or request the session's history.",
        first=first,
    )


def unknown_run(run_id: str, retention_s: float, *, is_shared: bool) -> StreamUnknownError:
    """Build the error for a run that has no events. A journal that is not shared ends with its process."""
    reasons = ["the id is wrong", f"the run ended more than {retention_s:g} s ago"]
    if not is_shared:
        reasons.append("the server has been restarted since")
    return StreamUnknownError(
        f"There are no events for run {run_id[:64]!r}: {', or '.join(reasons)}. "
        "If the run has existed, its session contains the messages."
    )
