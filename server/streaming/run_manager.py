"""Executes one process's runs, and lets clients follow runs in any process."""

from __future__ import annotations

import asyncio
import math
import re
import secrets
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ragflow_lg.base.errors import (
    StreamError,
    StreamGapError,
    StreamInterruptedError,
    StreamPositionError,
    StreamUnknownError,
)
from ragflow_lg.base.tasks import SharedTask
from ragflow_lg.checkpoints.records.leases import this_process
from ragflow_lg.component.events import AgentRecord
from ragflow_lg.runs.wire.wire_events import Envelope
from ragflow_lg.server.streaming.event_codec import RunEnd, StreamEvent, revive_error
from ragflow_lg.server.streaming.journal import LEFT, QUEUED, Journal, RunHead, unknown_run
from ragflow_lg.server.streaming.new_run import decode_run
from ragflow_lg.server.streaming.run_task import PlaySpec, RunTask, interruption_error

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.key_ring import KeyRing
    from ragflow_lg.server.streaming.run_queue import RunQueue

ARRIVAL_S = 30.0
HEARTBEAT_S = 0.5
BEATS = 6
"""How many intervals of the heartbeat fit into the time after which a run manager counts as dead."""
DRAIN_S = 30.0
MISSED_LOOKS = 2
"""How many consecutive checks must find no task for a run of this process."""

Event = TypeVar("Event")


LOOK_S = 0.05
MAX_LOOK_S = 0.5

_RUN_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")


class RunManager:
    """Executes runs, each in its own tasks, for any number of followers.

    Followers read from the journal at their own pace. They never delay a run, and each keeps at most one page of
    entries in memory. A follower that falls behind by more than the journal stores gets a StreamGapError.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        arrival_s: float = ARRIVAL_S,
        heartbeat_s: float = HEARTBEAT_S,
        queue: RunQueue | None = None,
        keys: KeyRing | None = None,
    ) -> None:
        """Initialize the manager.

        Args:
            journal: Where events are stored.
            arrival_s: How long a run's first follower may take to arrive.
            heartbeat_s: Interval between reports to the journal; a sixth of the journal's `alive_s`.
            queue: Decides which process plays a run, if there is one. It alone looks for dead processes.
            keys: Encrypt the runs in the queue.
        """
        self.journal = journal
        self._arrival_s = arrival_s
        self._heartbeat_s = heartbeat_s
        self._silence_s = BEATS * heartbeat_s
        """How long a run manager must not have reported before others take its runs over."""
        self._queue = queue
        self._keys = keys
        self.player = secrets.token_hex(8)
        """The id of this run manager in the heads of its runs."""
        self._tasks: dict[str, RunTask] = {}
        self._away: Counter[str] = Counter()
        """Number of followers by run, for runs in other processes."""
        self._heartbeat = SharedTask(self._report_forever)
        self.is_draining = False
        """Whether the manager refuses new runs."""

    def has(self, run_id: str) -> bool:
        """Return whether a run is executed in this process."""
        return run_id in self._tasks

    async def start(self, spec: PlaySpec) -> str:
        """Start a run and return its id, RAGFlow's ``message_id``. Followers receive its events and its end.

        Raises:
            StreamError: If the journal refuses the run or the manager is draining. The run has then not begun.
        """
        run_id = spec.run.envelope.message_id
        self.require_open()
        if run_id in self._tasks:
            raise StreamError(f"Run {run_id} is already running.")
        await self._live()
        identity = (str(this_process()), spec.takeovers, spec.policy)
        head = RunHead(spec.run.envelope, self.player, spec.owner, *identity)
        task = RunTask(spec, head, self.journal, arrival_s=self._arrival_s, away_s=self._silence_s)
        self._tasks[run_id] = task
        task.task.add_done_callback(partial(self._end, task))
        await task.start_result  # a caller that is cancelled does not stop the run
        return run_id

    def _end(self, task: RunTask, _: object) -> None:
        self._tasks.pop(task.head.run_id, None)
        task.start_result.cancel()

    def require_open(self) -> None:
        """Raise a StreamError if the manager is draining."""
        if self.is_draining:
            raise StreamError("This server is shutting down and does not start new runs. Send the request again.")

    async def order(self, envelope: Envelope, owner: str, policy: str = "") -> None:
        """Create the stream of a run that waits for a worker. Followers can come before it is played.

        Raises:
            StreamError: If the journal refuses the run, or the manager is draining.
        """
        self.require_open()
        await self._live()
        head = RunHead(envelope, QUEUED, owner, policy=policy)
        await self.journal.begin(head, is_elsewhere=True)

    async def wait(self, run_id: str) -> str:
        """Wait until a run in this process has ended. Return its status, or ``""`` if there is none."""
        if (task := self._tasks.get(run_id)) is None:
            return ""
        await asyncio.wait([task.task])
        return task.run.status

    async def head(self, run_id: str) -> RunHead:
        """Return a run's head, wherever it is running.

        Raises:
            StreamUnknownError: If the run is unknown.
        """
        if (task := self._tasks.get(run_id)) is not None:
            return task.head
        head = await self._stored_head(run_id) if _RUN_ID.fullmatch(run_id) else None
        if head is None:
            raise unknown_run(run_id, self.journal.retention_s, is_shared=self.journal.is_shared)
        return head

    async def _stored_head(self, run_id: str) -> RunHead | None:
        """Return a run's head, also if its server died before it created the stream, or it has expired in the queue."""
        head = await self.journal.head(run_id)
        if head is not None or self._queue is None or (data := await self._queue.read(run_id)) is None:
            return head
        if self.is_draining:
            raise _stopping_error(run_id)
        if await self.journal.tail(run_id) is not None:
            return None  # it is played, and Redis has lost the head: its player must not lose the run as well
        try:
            new = decode_run(data, run_id, self._keys)
        except StreamError:
            return None
        await self.order(new.envelope, new.tenant, new.policy)
        return await self.journal.head(run_id)

    async def read_end(self, run_id: str) -> RunEnd | None:
        """Return how a run ended, or None while it is running.

        Raises:
            StreamUnknownError: If the run is unknown.
        """
        await self.head(run_id)
        tail = await self.journal.tail(run_id)
        last = tail.event if tail is not None else None
        return last if isinstance(last, RunEnd) else None

    async def is_played(self, run_id: str) -> bool:
        """Check whether any process appears to be executing a run."""
        try:
            head = await self.head(run_id)
            if await self.read_end(run_id) is not None:
                return False
        except StreamUnknownError:
            return False
        if head.player == self.player:
            return self._is_played_here(run_id)
        return await self.is_alive(head.player)

    async def is_alive(self, player: str) -> bool:
        """Check whether a run manager is this one, now or soon, or has reported recently."""
        return player in (self.player, LEFT) or bool(await self.journal.alive([player]))

    async def events_so_far(self, run_id: str) -> list[StreamEvent]:
        """Return a run's events so far, without the first ones if those have been dropped."""
        after = 0
        while True:
            try:
                return await self._events_after(run_id, after)
            except StreamGapError as gap:
                after = gap.first - 1

    async def _events_after(self, run_id: str, after: int) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        tail = await self.journal.tail(run_id)
        if tail is None:
            return events
        async with aclosing(self.journal.read(run_id, after)) as pages:
            async for page in pages:
                events += [event for entry in page if not isinstance(event := entry.event, RunEnd)]
                if not page or page[-1].id >= tail.id:
                    break
        return events

    async def wait_until_begun(self, run_id: str, patience_s: float) -> None:
        """Wait up to ``patience_s`` seconds for a run's first event, without counting as a follower.

        Raises:
            RagflowLgError: If the run was refused before its first event.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s), aclosing(self.journal.read(run_id, 0)) as pages:
                async for page in pages:
                    first = page[0].event if page else None
                    if isinstance(first, RunEnd) and first.error is not None:
                        raise revive_error(first.error)
                    if page:
                        return

    def follow(self, run_id: str, after: int = 0) -> AsyncGenerator[tuple[int, StreamEvent]]:
        """Yield a run's events after number ``after``, each with its number, until the run ends; see `pages`."""
        return each_event(self.pages(run_id, after))

    async def pages(
        self, run_id: str, after: int = 0, *, has_records: bool = True
    ) -> AsyncGenerator[list[tuple[int, StreamEvent]]]:
        """Yield a run's events after number ``after``, those together that are there, until the run ends.

        Use `contextlib.aclosing` so that the follower is unregistered immediately. An interrupted run that another
        process continues goes on without its followers noticing. Agent records are numbered even if they are left out
        because ``has_records`` is false.

        Raises:
            StreamUnknownError: If the run is unknown, or its events have been deleted.
            StreamPositionError: If the run has not yet had an event with the number ``after``.
            StreamGapError: If the next events have been dropped, or ``after`` belongs to an earlier process.
            StreamInterruptedError: If the process executing the run has stopped. The session can be continued.
            RagflowLgError: If the run itself failed.
        """
        known_end = 0
        """The number of the last interruption after which the run goes on."""
        while True:
            head = await self.head(run_id)
            task = self._tasks.get(run_id)
            self._join(run_id, task)
            try:
                await self._begin_to_follow(head, task, after)
                async with aclosing(self.journal.read(run_id, after)) as pages:
                    missed = 0
                    async for page in pages:
                        missed = 0 if page else await self._look(run_id, missed)
                        events: list[tuple[int, StreamEvent]] = []
                        end: RunEnd | None = None
                        for entry in page:
                            event = entry.event
                            if not isinstance(event, RunEnd):
                                after = entry.id
                                if has_records or not isinstance(event, AgentRecord):
                                    events.append((after, event))
                            elif await self._is_last(run_id, event, entry.id, known_end):
                                end, known_end = event, entry.id
                                break
                        if events:
                            yield events
                        del events  # nothing needs them while the next ones are awaited
                        if end is not None and end.error is not None:
                            raise revive_error(end.error)
                        if end is not None:
                            return
            except StreamInterruptedError:
                if self._queue is None or not await self._wait_for_player(run_id):
                    raise
            finally:
                self._leave(run_id, task)

    async def _wait_for_player(self, run_id: str) -> bool:
        """Wait until a run that is quiet or interrupted is played. Return False if nobody will, or the server stops."""
        look_s = LOOK_S
        try:
            player = (await self.head(run_id)).player
            while not self.is_draining:
                is_open, now = await self.is_queued(run_id), (await self.head(run_id)).player
                if now != player or await self.is_played(run_id):
                    return True
                if not is_open:  # it has ended, or Redis has lost it
                    end = await self.read_end(run_id)
                    return end is not None and not end.is_interruption
                if now == QUEUED:
                    return True
                await asyncio.sleep(look_s)
                look_s = min(look_s * 1.5, MAX_LOOK_S)
        except StreamUnknownError:
            pass
        return False

    async def is_queued(self, run_id: str) -> bool:
        """Return whether a run is in the queue: it waits there, or is played.

        Raises:
            StreamError: If Redis fails.
        """
        return self._queue is not None and await self._queue.has(run_id)

    async def _begin_to_follow(self, head: RunHead, task: RunTask | None, after: int) -> None:
        if task is None:
            await self._live(is_news=self._away[head.run_id] == 1)
        if after:
            await self._check_position(head.run_id, after)

    async def _is_last(self, run_id: str, end: RunEnd, number: int, known_end: int) -> bool:
        """Return whether a run ends here, and note that a client has had its end. Others may continue a run."""
        if end.is_interruption:
            return number > known_end and (await self.head(run_id)).player == end.player
        with suppress(StreamError):
            await self.journal.note_read(run_id)
        return True

    def cancel(self, run_id: str) -> bool:
        """Cancel a run of this process. Return whether there is one that has not ended.

        Followers receive the resulting events, as with `ragflow_lg.runs.run.Run.cancel`.
        """
        task = self._tasks.get(run_id)
        if task is None or task.is_over:
            return False
        task.run.cancel()
        return True

    async def drain(self, patience_s: float = DRAIN_S, handover_s: float = math.inf) -> None:
        """Refuse new runs, and stop every run at the end of its superstep so that it can be continued elsewhere.

        After ``handover_s`` seconds, runs do not wait for models any more: the process that continues them asks again.
        Runs that have not stopped within ``patience_s`` seconds are stopped immediately and can also be continued.
        Followers get a StreamInterruptedError.
        """
        self.is_draining = True
        for task in self._tasks.values():
            task.run.drain()
        if self._queue is not None:  # end the streams of runs elsewhere, so that their clients go to another server
            for run_id in self._away:
                self.journal.wake(run_id)
        if handover_s < patience_s:
            await self._wait_for_runs(handover_s)
            for task in self._tasks.values():
                task.run.interrupt()
            patience_s -= handover_s
        await self._wait_for_runs(patience_s)
        for task in list(self._tasks.values()):
            task.stop()
        await self._wait_for_runs(None)

    async def _wait_for_runs(self, timeout_s: float | None) -> None:
        if tasks := [task.task for task in self._tasks.values()]:
            await asyncio.wait(tasks, timeout=timeout_s)

    async def aclose(self) -> None:
        """Stop all runs immediately. The journal stays open."""
        await self.drain(0)
        if self._heartbeat.is_running:
            await self._heartbeat.aclose()
            with suppress(StreamError):
                await self.journal.retire(self.player)

    def _join(self, run_id: str, task: RunTask | None) -> None:
        if task is not None:
            task.join()
        else:
            self._away[run_id] += 1

    def _leave(self, run_id: str, task: RunTask | None) -> None:
        if task is not None:
            task.leave()
            return
        self._away[run_id] -= 1
        if not self._away[run_id]:
            del self._away[run_id]

    async def _look(self, run_id: str, missed: int) -> int:
        """Check that a run without new events is still executed. Return how often it has been missed."""
        if self._queue is not None:
            if self.is_draining:
                raise _stopping_error(run_id)
            if missed + 1 >= MISSED_LOOKS:
                raise interruption_error(run_id)
            return missed + 1
        player = (await self.head(run_id)).player
        is_there = self._is_played_here(run_id) if player == self.player else await self.is_alive(player)
        if not is_there and missed + 1 >= MISSED_LOOKS:
            raise interruption_error(run_id)
        return 0 if is_there else missed + 1

    def _is_played_here(self, run_id: str) -> bool:
        task = self._tasks.get(run_id)
        return task is not None and not task.task.done()

    async def _check_position(self, run_id: str, after: int) -> None:
        tail = await self.journal.tail(run_id)
        if tail is None and after > 0:  # a process that has ended wrote it, and this one has only begun to continue
            raise StreamGapError(
                f"Run {run_id} has had no event here so far, so event {after} is not among them. Send no id to get all "
                "events.",
                first=1,
            )
        last = tail.id if tail is not None else 0
        if tail is not None and isinstance(tail.event, RunEnd):
            last -= 1
        if not 0 <= after <= last:
            raise StreamPositionError(
                f"Run {run_id} has had events 1 to {last} so far; event {after} is not among them. "
                "Send the id of the last event received, or no id to get all events."
            )

    async def _live(self, *, is_news: bool = False) -> None:
        """Report to the journal at regular intervals from now on, and immediately if something has changed."""
        if not self._heartbeat.is_running:
            await self._report()
            self._heartbeat.start()
        elif is_news:
            await self._report()

    async def _report(self) -> None:
        await self.journal.heartbeat(self.player, list(self._tasks), list(self._away))

    async def _report_forever(self) -> None:
        beat = 0
        while True:
            await asyncio.sleep(self._heartbeat_s)
            beat += 1
            with suppress(StreamError):  # a failed report is repeated soon; callers that need the journal get the error
                await (self._report() if beat % BEATS == 0 else self.journal.heartbeat(self.player, (), ()))


def _stopping_error(run_id: str) -> StreamInterruptedError:
    return StreamInterruptedError(f"This server is stopping. Run {run_id} goes on: send the request again.")


async def each_event(pages: AsyncGenerator[list[tuple[int, Event]]]) -> AsyncGenerator[tuple[int, Event]]:
    """Yield the events of pages one by one."""
    async with aclosing(pages):
        async for page in pages:
            for numbered in page:
                yield numbered
