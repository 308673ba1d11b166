"""Where the events of runs are kept, so that they can be read again, and elsewhere."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence
from typing import Protocol

from msgspec import Struct

from ragflow_lg.base.errors import RunUnknownError, StreamGapError
from ragflow_lg.server.streaming.event_window import Bounds, Entry
from ragflow_lg.wire.wire_events import Envelope

__all__ = ["KEPT_S", "MAX_RUN", "QUIET_S", "Journal", "RunHead", "gap_error", "unknown_run"]

MAX_RUN = Bounds(20_000, 16 * 1024 * 1024)
"""What is kept of one run: far more than a turn usually says."""

KEPT_S = 300.0
"""How long a run that has ended is kept."""

QUIET_S = 5.0
"""How long a reader waits before it is given an empty page."""


class RunHead(Struct, frozen=True):
    """What is known of a run from its first moment on."""

    envelope: Envelope
    player: str
    """Which run manager plays it."""
    owner: str = ""
    """Who may follow it, in the words of whoever started it; kept, not looked at."""

    @property
    def run_id(self) -> str:
        """The run, which is RAGFlow's ``message_id``."""
        return self.envelope.message_id


class Journal(Protocol):
    """Events of runs, each as one entry of bytes, numbered from 1 in each run.

    One run manager writes the entries of a run, in order. A journal is bounded: of a long run the oldest entries are
    dropped, and a run that has ended is forgotten after a while. All methods raise StreamError if the journal fails.
    """

    @property
    def kept_s(self) -> float:
        """For how long a run that has ended can be followed, in seconds."""
        ...

    async def begin(self, head: RunHead) -> None:
        """Open the entries of a run."""
        ...

    async def claim(self, head: RunHead, was: str) -> bool:
        """Make ``head`` the player of a run whose player ``was`` has stopped; False if another was quicker.

        It goes on behind the newest entry.
        """
        ...

    async def append(self, run_id: str, data: Sequence[bytes], *, is_last: bool = False) -> None:
        """Add entries; behind the last one a run is closed. Returns once they can be read everywhere."""
        ...

    async def head(self, run_id: str) -> RunHead | None:
        """Give what is known of a run, or None."""
        ...

    async def tail(self, run_id: str) -> Entry | None:
        """Give the newest entry of a run, or None."""
        ...

    def read(self, run_id: str, after: int) -> AsyncGenerator[Sequence[Entry]]:
        """Go through the entries behind ``after``, page by page, and wait for more. An empty page tells of silence.

        It does not end by itself.

        Raises:
            StreamGapError: if entries behind ``after`` have been dropped.
            RunUnknownError: if the run has been forgotten meanwhile.
        """
        ...

    async def beat(self, player: str, played: Collection[str], followed: Collection[str]) -> None:
        """Say that a run manager lives, plays these runs, and has followers of those, which others play.

        It counts for `alive_s`; to be repeated well within that time.
        """
        ...

    async def is_alive(self, player: str) -> bool:
        """Tell whether a run manager has been heard of lately."""
        ...

    async def is_followed(self, run_id: str) -> bool:
        """Tell whether a run manager that does not play the run has, or lately had, followers of it."""
        ...

    async def aclose(self) -> None:
        """Let go of what is held; nothing can be read any more."""
        ...


def gap_error(run_id: str, after: int, first: int) -> StreamGapError:
    """Tell a follower that what it needs next is gone."""
    return StreamGapError(
        f"Events {after + 1} to {first - 1} of run {run_id} have been dropped: the journal is bounded, and this reader "
        f"was too slow or came too late. Read on from event {first}, or ask for the session's history.",
        first=first,
    )


def unknown_run(run_id: str, kept_s: float) -> RunUnknownError:
    """Tell that there is nothing of a run."""
    return RunUnknownError(
        f"There are no events of a run {run_id[:64]!r}: the id is wrong, or it ended too long ago "
        f"(events are kept for {kept_s:g} s)."
    )
