"""Journals: where the events of runs are stored so that they can be read again, in this process and in others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from typing import Protocol

from msgspec import Struct

from ragflow_lg.base.errors import RunUnknownError, StreamGapError
from ragflow_lg.server.streaming.event_window import Bounds, Entry, Window
from ragflow_lg.wire.wire_events import Envelope


class Bell(asyncio.Event):
    """A notification that fires once, for all who wait for it."""

    is_news = False
    """Whether it fired because of new entries, and not because of a quiet period."""


class Feed:
    """A window with a bell that rings after every addition, or after ``quiet_s`` without one.

    All readers share one timer, since there may be many.
    """

    def __init__(self, window: Window, quiet_s: float) -> None:
        self.window = window
        self.readers = 0
        self.is_dropped = False
        self.bell = Bell()
        """The bell that rings next; fetch it before looking at the window."""
        self._quiet_s = quiet_s
        self._timer: asyncio.TimerHandle | None = None

    def ring(self) -> None:
        """Wake all waiting readers: there are new entries."""
        self._ring(True)

    async def wait_for(self, bell: Bell) -> bool:
        """Wait for a bell; return whether there are new entries. Without any it rings within ``quiet_s``."""
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
"""Limits of one run, far above what a turn usually produces."""

RETENTION_S = 300.0
"""How long the events of a finished run are stored."""

QUIET_S = 5.0
"""How long a reader waits before it receives an empty page."""


class RunHead(Struct, frozen=True):
    """What is known of a run before its first event."""

    envelope: Envelope
    player: str
    """Id of the run manager that plays it."""
    owner: str = ""
    """Who may follow the run, as passed to `RunManager.start`; stored, not interpreted."""

    @property
    def run_id(self) -> str:
        """The run's id, RAGFlow's ``message_id``."""
        return self.envelope.message_id


class Journal(Protocol):
    """Events of runs, each stored as one entry of bytes and numbered from 1 in each run.

    One run manager writes the entries of a run, in order. A journal is bounded: the oldest entries of a long run are
    dropped, and a finished run is removed after `retention_s`. All methods raise StreamError if the journal fails.
    """

    @property
    def retention_s(self) -> float:
        """How long a finished run can be followed, in seconds."""
        ...

    async def begin(self, head: RunHead) -> None:
        """Create the stream of a run."""
        ...

    async def claim(self, head: RunHead, previous: str) -> bool:
        """Make ``head.player`` the player of a run whose player ``previous`` has stopped, after its newest entry.

        Returns False if another run manager claimed it first.
        """
        ...

    async def append(self, run_id: str, data: Sequence[bytes], *, is_last: bool = False) -> None:
        """Add entries; ``is_last`` closes the run. Returns once every reader can see them."""
        ...

    async def head(self, run_id: str) -> RunHead | None:
        """Return the head of a run, or None if it is unknown."""
        ...

    async def tail(self, run_id: str) -> Entry | None:
        """Return the newest entry of a run, or None if it has none."""
        ...

    def read(self, run_id: str, after: int) -> AsyncGenerator[Sequence[Entry]]:
        """Yield the entries after ``after`` page by page and wait for more; an empty page reports a quiet period.

        It does not end by itself.

        Raises:
            StreamGapError: If entries after ``after`` have been dropped.
            RunUnknownError: If the run has been removed meanwhile.
        """
        ...

    async def heartbeat(self, player: str, own_runs: Collection[str], followed_runs: Collection[str]) -> None:
        """Report that a run manager is alive, which runs it plays, and which runs of others it has followers of.

        A report is valid for `alive_s`; repeat it well within that time.
        """
        ...

    async def is_alive(self, player: str) -> bool:
        """Check whether a run manager has reported recently."""
        ...

    async def is_followed(self, run_id: str) -> bool:
        """Check whether a run manager other than the run's player has, or recently had, followers of it."""
        ...

    async def aclose(self) -> None:
        """Release all resources; nothing can be read afterwards."""
        ...


def gap_error(run_id: str, after: int, first: int) -> StreamGapError:
    """Build the error for a follower whose next event has been dropped."""
    return StreamGapError(
        f"Events {after + 1} to {first - 1} of run {run_id} have been dropped: the journal is bounded, and this reader "
        f"was too slow or started too late. Continue from event {first}, or request the session's history.",
        first=first,
    )


def unknown_run(run_id: str, retention_s: float) -> RunUnknownError:
    """Build the error for a run without events."""
    return RunUnknownError(
        f"There are no events of a run {run_id[:64]!r}: the id is wrong, or the run ended more than "
        f"{retention_s:g} s ago and its events have been deleted."
    )
