"""The runs of one process, and everybody's way to follow runs wherever they are played."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from ragflow_lg.base.errors import RunUnknownError, StreamError, StreamPositionError
from ragflow_lg.server.streaming.disconnect_policy import DEFAULT_POLICY, DisconnectPolicy
from ragflow_lg.server.streaming.error_codec import revive_error
from ragflow_lg.server.streaming.event_codec import RunEnd, StreamEvent, decode_entry
from ragflow_lg.server.streaming.journal import Journal, RunHead, unknown_run
from ragflow_lg.server.streaming.run_task import Playable, RunTask, interrupted
from ragflow_lg.server.streaming.task_cancellation import end_task
from ragflow_lg.services.sessions import Cancels

__all__ = ["RunManager"]

ARRIVAL_S = 30.0
BEAT_S = 5.0
DRAIN_S = 30.0
MISSED_LOOKS = 2
"""How often in a row a player has to be found silent: a Redis that was away has forgotten it for a moment."""

_RUN_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")


class RunManager:
    """Plays runs, each in tasks of its own, and lets any number of followers read what they say.

    Followers read from the journal at their own pace. They never hold a run up, and each of them holds no more than one
    page of entries. One that is slower than the run by more than the journal keeps gets a StreamGapError.
    """

    def __init__(
        self, journal: Journal, cancels: Cancels | None = None, *, arrival_s: float = ARRIVAL_S, beat_s: float = BEAT_S
    ) -> None:
        """``cancels`` are those of the session store, by which runs of other processes are cancelled.

        ``arrival_s`` is how long the first follower of a run may take; ``beat_s`` how often the journal is told that
        this run manager lives, to be a third of what it allows, or less.
        """
        self._journal = journal
        self._cancels = cancels
        self._arrival_s = arrival_s
        self._beat_s = beat_s
        self._player = secrets.token_hex(8)
        self._tasks: dict[str, RunTask] = {}
        self._away: Counter[str] = Counter()
        """Followers of runs that others play."""
        self._beating: asyncio.Task[None] | None = None
        self._is_draining = False

    @property
    def is_draining(self) -> bool:
        """Whether nothing new is begun any more."""
        return self._is_draining

    @property
    def running_count(self) -> int:
        """How many runs are being played here."""
        return len(self._tasks)

    @property
    def journal(self) -> Journal:
        """Where the events are kept."""
        return self._journal

    async def start(
        self, run: Playable, policy: DisconnectPolicy = DEFAULT_POLICY, *, owner: str = "", was: str = ""
    ) -> str:
        """Begin to play a run; give its id, which is RAGFlow's ``message_id``. Its end is told to its followers.

        ``owner`` is kept with the run, for `head`. ``was`` is the player of a run that was interrupted, and is taken
        over: the events go on behind those that there are.

        Raises:
            StreamError: if the journal does not take it, or the run manager is draining. The run has not begun then.
        """
        run_id = run.envelope.message_id
        if self._is_draining:
            raise StreamError("This server is shutting down and begins nothing new. Ask again, or another replica.")
        if run_id in self._tasks:
            raise StreamError(f"Run {run_id} is being played already.")
        await self._live()
        head = RunHead(run.envelope, self._player, owner)
        arrival_s, away_s = self._arrival_s, 3 * self._beat_s
        played = RunTask(run, head, policy, self._journal, arrival_s=arrival_s, away_s=away_s, was=was)
        self._tasks[run_id] = played
        played.task.add_done_callback(lambda _: self._tasks.pop(run_id, None))
        await asyncio.shield(played.began)
        return run_id

    async def head(self, run_id: str) -> RunHead:
        """Give what is known of a run, wherever it is played: its envelope, and its owner.

        Raises:
            RunUnknownError: if nobody knows it.
        """
        if (played := self._tasks.get(run_id)) is not None:
            return played.head
        found = await self._journal.head(run_id) if _RUN_ID.fullmatch(run_id) else None
        if found is None:
            raise unknown_run(run_id, self._journal.kept_s)
        return found

    async def read_end(self, run_id: str) -> RunEnd | None:
        """Tell how a run ended; None while it goes on.

        Raises:
            RunUnknownError: if nobody knows it.
        """
        await self.head(run_id)
        tail = await self._journal.tail(run_id)
        last = decode_entry(tail.data) if tail is not None else None
        return last if isinstance(last, RunEnd) else None

    async def is_played(self, run_id: str) -> bool:
        """Tell whether somebody plays a run now, as far as can be seen."""
        try:
            head = await self.head(run_id)
            if await self.read_end(run_id) is not None:
                return False
        except RunUnknownError:
            return False
        return not await self._is_silent(head, self._tasks.get(run_id))

    async def events_so_far(self, run_id: str) -> list[StreamEvent]:
        """Give all events of a run that there are so far.

        Raises:
            StreamGapError: if the first ones have been dropped.
        """
        found: list[StreamEvent] = []
        tail = await self._journal.tail(run_id)
        if tail is None:
            return found
        async with aclosing(self._journal.read(run_id, 0)) as pages:
            async for page in pages:
                events = [decode_entry(entry.data) for entry in page]
                found += [event for event in events if not isinstance(event, RunEnd)]
                if not page or page[-1].id >= tail.id:
                    break
        return found

    async def wait_until_begun(self, run_id: str, patience_s: float) -> None:
        """Wait until a run has said something, so long at most. Whoever asks counts as no follower.

        Raises:
            RagflowLgError: what the run was refused with before it said anything.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s), aclosing(self._journal.read(run_id, 0)) as pages:
                async for page in pages:
                    first = decode_entry(page[0].data) if page else None
                    if isinstance(first, RunEnd) and first.error is not None:
                        raise revive_error(first.error)
                    if page:
                        return

    async def follow(self, run_id: str, after: int = 0) -> AsyncGenerator[tuple[int, StreamEvent]]:
        """Give the events of a run behind number ``after``, each with its number; ends with the run.

        Close it (`contextlib.aclosing`) to be counted out at once.

        Raises:
            RunUnknownError: if nobody knows the run, or its events have been forgotten.
            StreamPositionError: if the run has had no event ``after`` yet.
            StreamGapError: if events that come next have been dropped.
            RunInterruptedError: if the process that played the run has stopped; the session can be continued.
            RagflowLgError: what the run itself has failed with.
        """
        head = await self.head(run_id)
        played = self._tasks.get(run_id)
        self._join(run_id, played)
        try:
            if played is None:
                await self._live(is_news=self._away[run_id] == 1)
            if after:
                await self._check(run_id, after)
            async with aclosing(self._journal.read(run_id, after)) as pages:
                missed = 0
                async for page in pages:
                    if not page:
                        head = await self.head(run_id)  # another run manager may have taken it over
                        missed = missed + 1 if await self._is_silent(head, played) else 0
                        if missed >= MISSED_LOOKS:
                            raise interrupted(run_id)
                        continue
                    missed = 0
                    for entry in page:
                        event = decode_entry(entry.data)  # one at a time: a slow reader holds bytes, not objects
                        if isinstance(event, RunEnd):
                            if event.is_interruption and (await self.head(run_id)).player != event.player:
                                continue  # others have gone on
                            if event.error is not None:
                                raise revive_error(event.error)
                            return
                        yield entry.id, event
        finally:
            self._leave(run_id, played)

    async def cancel(self, run_id: str) -> bool:
        """Cancel a run, wherever it is played; tell whether there was one to cancel.

        Followers get what comes of it as events, as with `ragflow_lg.runs.run.Run.cancel`.
        """
        if (played := self._tasks.get(run_id)) is not None and not played.is_over:
            played.run.cancel()
            return True
        try:
            head = await self.head(run_id)
            if await self.read_end(run_id) is not None or not await self._journal.is_alive(head.player):
                return False
        except RunUnknownError:
            return False
        if self._cancels is None or head.player == self._player:
            return False
        await self._cancels.request(head.envelope.session_id)
        return True

    def cancel_session(self, session_id: str) -> bool:
        """Cancel what is played here of a session; tell whether any of it had begun, and so held the session."""
        here = [each for each in self._tasks.values() if each.head.envelope.session_id == session_id]
        for played in here:
            played.run.cancel()
        return any(played.has_begun and not played.is_over for played in here)

    async def drain(self, patience_s: float = DRAIN_S) -> None:
        """Begin nothing new, and let every run stop at the end of its superstep, so that it can go on elsewhere.

        What has not stopped within ``patience_s`` is stopped in the middle; it can go on, too. Followers get a
        RunInterruptedError.
        """
        self._is_draining = True
        for played in self._tasks.values():
            played.run.drain()
        if tasks := [played.task for played in self._tasks.values()]:
            await asyncio.wait(tasks, timeout=patience_s)
        for played in list(self._tasks.values()):
            played.stop()
        if tasks := [played.task for played in self._tasks.values()]:
            await asyncio.wait(tasks)

    async def aclose(self) -> None:
        """Stop everything at once; the journal stays open."""
        await self.drain(0)
        if self._beating is not None:
            await end_task(self._beating)
            self._beating = None

    # Who is there

    def _join(self, run_id: str, played: RunTask | None) -> None:
        if played is not None:
            played.join()
        else:
            self._away[run_id] += 1

    def _leave(self, run_id: str, played: RunTask | None) -> None:
        if played is not None:
            played.leave()
            return
        self._away[run_id] -= 1
        if not self._away[run_id]:
            del self._away[run_id]

    async def _is_silent(self, head: RunHead, played: RunTask | None) -> bool:
        """Tell whether nobody plays the run, as far as can be seen."""
        if head.player == self._player:
            return played is None or played.task.done()
        return not await self._journal.is_alive(head.player)

    async def _check(self, run_id: str, after: int) -> None:
        tail = await self._journal.tail(run_id)
        last = tail.id if tail is not None else 0
        if tail is not None and isinstance(decode_entry(tail.data), RunEnd):
            last -= 1
        if not 0 <= after <= last:
            raise StreamPositionError(
                f"Run {run_id} has had events 1 to {last} so far; nothing comes behind event {after}. "
                "Send the id of the last event that came, or none to get all."
            )

    async def _live(self, *, is_news: bool = False) -> None:
        """Be heard of, now if there is news, and from now on."""
        if self._beating is None or self._beating.done():
            await self._beat()
            self._beating = asyncio.create_task(self._beat_on())
        elif is_news:
            await self._beat()

    async def _beat(self) -> None:
        await self._journal.beat(self._player, list(self._tasks), list(self._away))

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(self._beat_s)
            with suppress(StreamError):  # tried again soon; whoever needs the journal is told
                await self._beat()
