"""Journals, which store run events so that they can be read again, in this process and in others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from typing import Protocol

from msgspec import Struct

from ragflow_lg.base.errors import RunUnknownError, StreamGapError
from ragflow_lg.server.streaming.event_window import Bounds, Entry, Window
from ragflow_lg.wire.wire_events import Envelope


class Bell(asyncio.Event):
    """A notification that fires once, for everything waiting for it."""

    is_news = False
    """Whether it fired because of new entries rather than a quiet period."""


class Feed:
    """A window with a bell that rings after every addition, or after ``quiet_s`` without any.

    All readers share one timer, since there may be many.
    """

    def __init__(self, window: Window, quiet_s: float) -> None:
        self.window = window
        self.readers = 0
        self.is_dropped = False
        self.bell = Bell()
        """The bell that rings next. Get it before looking at the window."""
        self._quiet_s = quiet_s
        self._timer: asyncio.TimerHandle | None = None

    def ring(self) -> None:
        """Wake all waiting readers because there are new entries."""
        self._ring(True)

    async def wait_for(self, bell: Bell) -> bool:
        """Wait for a bell. Return whether there are new entries; if there are none, it rings within ``quiet_s``."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._quiet_s, self._ring_quietly)
        await bell.wait()
        return bell.is_news

    def _ring_quietly(self) -> None:
        self._timer = None
        self._ring(False)

    def _ring(self, is_news: bool) -> None:
        bell, self.bell = self.bell, Bell()
        bell.is_news = is_news
        bell.set()


MAX_RUN = Bounds(20_000, 16 * 1024 * 1024)
"""Limits for one run, far above what a turn usually produces."""

RETENTION_S = 300.0
"""How long a finished run's events are stored."""

QUIET_S = 5.0
"""How long a reader waits before it receives an empty page."""


class RunHead(Struct, frozen=True):
    """The data known about a run before its first event."""

    envelope: Envelope
    player: str
    """Id of the run manager executing the run."""
    owner: str = ""
    """Who can follow the run, as passed to `RunManager.start`. Stored without being interpreted."""

    @property
    def run_id(self) -> str:
        """The run's id, RAGFlow's ``message_id``."""
        return self.envelope.message_id


class Journal(Protocol):
    """Run events, each stored as a bytes entry. Entries are numbered from 1 in each run.

    A run's entries are written in order by one run manager. A journal is bounded: a long run's oldest entries are
    dropped, and a finished run is removed after `retention_s`. All methods raise StreamError if the journal fails.
    """

    @property
    def retention_s(self) -> float:
        """How long a finished run can be followed, in seconds."""
        ...

    async def begin(self, head: RunHead) -> None:
        """Create a run's stream."""
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
            RunUnknownError: If the run has been removed in the meantime.
        """
        ...

    async def heartbeat(self, player: str, own_runs: Collection[str], followed_runs: Collection[str]) -> None:
        """Report that a run manager is alive, which runs it is executing, and which others' runs it has followers for.

        A report is valid for `alive_s`. Repeat it well within that time.
        """
        ...

    async def is_alive(self, player: str) -> bool:
        """Check whether a run manager has reported recently."""
        ...

    async def is_followed(self, run_id: str) -> bool:
        """Check whether a run manager other than the run's own has, or recently had, followers for the run."""
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


def unknown_run(run_id: str, retention_s: float) -> RunUnknownError:
    """Build the error for a run that has no events."""
    return RunUnknownError(
        f"There are no events for run {run_id[:64]!r}: the id is wrong, or the run ended more than "
        f"{retention_s:g} s ago and its events have been deleted."
    )
