"""Notices when other replicas stop, for the followers of their runs."""

from __future__ import annotations

import asyncio
from collections import Counter

from ragflow_lg.base.errors import StreamError
from ragflow_lg.base.tasks import SharedTask
from ragflow_lg.server.streaming.journal import Journal

MISSED_LOOKS = 2
"""How many consecutive looks must find no report, because a report may be late by up to one interval."""


class ReplicaWatch:
    """Looks for the reports of the run managers whose runs this process follows: one command for all of them.

    A process judges others only if it can trust what it sees: after a failure of the journal, which may also have lost
    reports, or a pause of its own, it first waits until everyone has had time to report again.
    """

    def __init__(self, journal: Journal, *, look_s: float, silence_s: float) -> None:
        """Initialize the watch. It looks every ``look_s`` and waits ``silence_s`` after a failure."""
        self._journal = journal
        self._look_s = look_s
        self._silence_s = silence_s
        self._players: dict[str, str] = {}
        """The run managers of the runs that are followed, by run."""
        self._missed: Counter[str] = Counter()
        self._trusted_from = 0.0
        """When to judge again, on the loop's clock."""
        self._task = SharedTask(self._look_forever)

    def follow(self, run_id: str, player: str) -> None:
        """Watch the run manager of a run."""
        self._players[run_id] = player
        self._task.start()

    def leave(self, run_id: str) -> None:
        """Stop watching for a run."""
        self._players.pop(run_id, None)

    def is_silent(self, player: str) -> bool:
        """Return whether a run manager has stopped reporting."""
        return self._missed[player] >= MISSED_LOOKS

    def distrust(self) -> None:
        """Judge nobody for a while, because the journal has failed."""
        self._trusted_from = asyncio.get_running_loop().time() + self._silence_s

    async def aclose(self) -> None:
        """Stop looking."""
        self._players.clear()
        await self._task.aclose()

    async def _look_forever(self) -> None:
        loop = asyncio.get_running_loop()
        while self._players:
            slept_at = loop.time()
            await asyncio.sleep(self._look_s)
            if loop.time() - slept_at > self._silence_s / 2:
                self._missed.clear()  # this process was stopped itself
            try:
                await self._look()
            except StreamError:
                self.distrust()
            if loop.time() < self._trusted_from:
                self._missed.clear()
        self._missed.clear()

    async def _look(self) -> None:
        players = set(self._players.values())
        alive = await self._journal.alive(players)
        self._missed = Counter({player: self._missed[player] + 1 for player in players - alive})
        for run_id, player in list(self._players.items()):
            if self.is_silent(player):
                self._journal.wake(run_id)
