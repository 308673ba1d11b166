"""One run in this process. Its events are written to the journal, from which followers read them."""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct

from ragflow_lg.base.errors import (
    ConflictError,
    RagflowLgError,
    RunError,
    SessionBusyError,
    SettingsError,
    StreamError,
    StreamInterruptedError,
)
from ragflow_lg.runs.wire.wire_events import Envelope, UserInputs, WorkflowFinished
from ragflow_lg.server.streaming.event_codec import LOST, RunEnd, StreamEvent, encode_entry, store_error
from ragflow_lg.server.streaming.journal import QUEUED, Journal, RunHead

if TYPE_CHECKING:
    from ragflow_lg.runs.speaker import Speaker

LAST_S = 1.0
"""How long a journal that has failed may take to store the final entry."""

_log = logging.getLogger(__name__)

_GRACE = re.compile(r"grace:([0-9]{1,6}(?:\.[0-9]{1,3})?)")


CANCEL = "cancel"
CONTINUE = "continue"
DEFAULT_POLICY = "grace:30"
"""Long enough for browsers and proxies to reconnect, but short enough not to waste money on unread answers."""


def parse_policy(text: str) -> float:
    """Return how many seconds a run continues without followers before it is cancelled, which may be infinite.

    The policy is ``cancel``, ``continue`` or ``grace:SECONDS``.

    Raises:
        SettingsError: For any other text.

    >>> parse_policy("grace:2.5")
    2.5
    """
    if text == CANCEL:
        return 0.0
    if text == CONTINUE:
        return math.inf
    if match := _GRACE.fullmatch(text):
        return float(match[1])
    raise SettingsError(f"Unknown disconnect policy {text[:40]!r}: use cancel, continue or grace:SECONDS.")


class Playable(Protocol):
    """A run that a run manager can execute, such as `ragflow_lg.runs.run.Run`."""

    @property
    def envelope(self) -> Envelope:
        """The fields shared by all of the run's frames."""
        ...

    @property
    def status(self) -> str:
        """The run's status, which is ``running`` until it ends."""
        ...

    def cancel(self) -> None:
        """Stop the turn."""
        ...

    def drain(self) -> None:
        """Stop at a point where the turn can be continued elsewhere."""
        ...

    def interrupt(self) -> None:
        """Stop without waiting for models; the turn can be continued elsewhere."""
        ...

    def batches(self, *, publishes: bool = False) -> AsyncGenerator[list[StreamEvent]]:
        """Run the turn and yield its events; see `ragflow_lg.runs.run.Run.batches`."""
        ...


class Replay(Protocol):
    """Decides which events of a run that was taken over its followers have not received yet."""

    async def open(self) -> None:
        """Find out what followers have received. Called once, when nobody else can send them anything more."""
        ...

    def feed(self, event: StreamEvent) -> Sequence[StreamEvent]:
        """Return the events to publish for an event of the run."""
        ...

    def complete(self, error: ConflictError) -> Sequence[StreamEvent]:
        """Return the last events of a turn that cannot be continued because it had already ended.

        Raises:
            CheckpointError: If it had not.
        """
        ...


OpenVoice: TypeAlias = "Callable[[Callable[[StreamEvent], Awaitable[None]]], Speaker | None]"
"""Returns what speaks a run and publishes audio with the given function, or None."""

OnFinished: TypeAlias = "Callable[[bool, bool], Awaitable[None]]"
"""Stores the end of a run. The arguments say whether it produced any event, and whether another process can go on."""


class PlaySpec(Struct, frozen=True):
    """A run to start, and what is known about it."""

    run: Playable
    policy: str = DEFAULT_POLICY
    """What happens when the run has no followers."""
    owner: str = ""
    """Stored in the run's `RunHead`, as are ``takeovers``."""
    takeovers: int = 0
    previous: str = ""
    """If an interrupted run is taken over, its previous run manager; `QUEUED` if it has waited for a worker. The events
    continue after the stored ones."""
    replay: Replay | None = None
    """If the run is taken over, what its followers have received."""
    on_finished: OnFinished | None = None
    """Called once after the run's last event, before followers learn that it has ended."""
    open_voice: OpenVoice | None = None


class RunTask:
    """A run with the task that executes it and the number of its followers in this process."""

    def __init__(self, spec: PlaySpec, head: RunHead, journal: Journal, *, arrival_s: float, away_s: float) -> None:
        """Create the task.

        Args:
            spec: The run to execute.
            head: The run's head in the journal.
            journal: Where the events are written.
            arrival_s: How long the first follower may take to arrive.
            away_s: How often to check for followers in other processes.
        """
        self.run = spec.run
        self.head = head
        self._spec = spec
        self._grace_s = parse_policy(spec.policy)
        self._journal = journal
        self._arrival_s = arrival_s
        self._away_s = away_s
        self._writing = asyncio.Lock()
        """Keeps what the run and its voice publish in order."""
        self._failure: StreamError | None = None
        """The failure of the journal."""
        self._followers = 0
        self._watching: asyncio.TimerHandle | asyncio.Task[None] | None = None
        """What cancels the run if nobody follows it."""
        self._is_reading = self._is_cut = self._is_stopped = self._has_read = False
        self.has_begun = False
        """Whether the run has produced an event. A refused run never does."""
        self.is_over = False
        """Whether only the final entry is still to be written."""
        self.start_result: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done as soon as the journal has accepted the run. Contains the error if it was refused."""
        self.task = asyncio.create_task(self._play())

    def join(self) -> None:
        """Count a follower."""
        self._followers += 1
        self._stop_watching()

    def leave(self) -> None:
        """Uncount a follower."""
        self._followers -= 1
        if not self._followers:
            self._watch_after(self._grace_s)

    def stop(self) -> None:
        """Stop the run immediately, in the middle of its work. It can be continued."""
        self._is_stopped = True
        self._cut()

    def _cut(self) -> None:
        """End the reading of the run."""
        self.run.cancel()
        if self._is_reading:
            self._is_cut = True
            self.task.cancel()

    async def _play(self) -> None:
        try:
            await self._open()
        except Exception as error:  # noqa: BLE001 - the caller receives it
            if not self.start_result.done():
                self.start_result.set_exception(error)
                self.start_result.exception()  # the caller may be gone: mark the exception as retrieved
            return
        if not self.start_result.done():
            self.start_result.set_result(None)
        if not self._followers:
            self._watch_after(max(self._arrival_s, self._grace_s))
        end = self._build_end(await self._read_all())
        try:
            if self._spec.on_finished is not None:
                await self._spec.on_finished(self.has_begun, end.is_interruption)
        finally:
            self.is_over = True
            await self._write_end(end, None if self._failure is None else LAST_S)

    async def _write_end(self, end: RunEnd, patience_s: float | None) -> None:
        with suppress(StreamError, TimeoutError):  # followers get the journal's error when they read
            async with asyncio.timeout(patience_s):
                await self._journal.append(self.head.run_id, [encode_entry(end)], is_last=True)

    async def _open(self) -> None:
        if not self._spec.previous:
            await self._journal.begin(self.head)
            return
        run_id = self.head.run_id
        if not await self._journal.claim(self.head, self._spec.previous):
            raise StreamError(f"Another server has already taken over run {run_id}.")
        try:
            await self._go_on()
        except Exception:
            await self._write_end(self._build_interruption(self.head.player), LAST_S)  # so that others can go on
            raise

    async def _go_on(self) -> None:
        """Prepare what follows the stored events of a run that has been claimed."""
        if self._spec.replay is not None:
            await self._spec.replay.open()
        if self._spec.previous == QUEUED:
            return  # it has written nothing
        # This uses the number that the other run manager would use next if it resumed.
        end = self._build_interruption(self._spec.previous)
        await self._journal.append(self.head.run_id, [encode_entry(end)])

    def _build_interruption(self, player: str) -> RunEnd:
        return RunEnd("drained", store_error(interruption_error(self.head.run_id)), player)

    def _build_end(self, raised: BaseException | None) -> RunEnd:
        status = self.run.status
        error: RagflowLgError | None = None
        is_cut = isinstance(raised, asyncio.CancelledError) or self._failure is not None
        is_cut = is_cut or (self._is_stopped and status in ("running", "cancelled"))
        # Another process has taken this one, which was slow to report, for dead: it goes on with the run.
        has_begun = self.has_begun or self._spec.replay is not None  # which sends nothing that followers have
        is_lost = has_begun and self._journal.is_shared and isinstance(raised, SessionBusyError)
        if is_cut or is_lost or status == "drained":
            status, error = LOST if is_lost else "drained", interruption_error(self.head.run_id)
        elif raised is not None:
            error = raised if isinstance(raised, RagflowLgError) else RunError(f"{type(raised).__name__}: {raised}")
            if raised is not error:
                _log.error("Run %s failed.", self.head.run_id, exc_info=raised)
        return RunEnd(status, store_error(error) if error is not None else None, self.head.player)

    async def _read_all(self) -> BaseException | None:
        """Read the run to its end. Return the exception that ended it."""
        self._is_reading = True
        try:
            if not self._is_stopped:
                await self._read()
        except asyncio.CancelledError as error:
            if not self._is_cut:
                raise
            while self.task.uncancel():
                pass
            return error
        except Exception as error:  # noqa: BLE001 - the end of the run contains it
            return error
        finally:
            self._is_reading = False
            self._has_read = True
            self._stop_watching()
        return asyncio.CancelledError() if self._is_stopped else None

    async def _read(self) -> None:
        batches, replay = self.run.batches(publishes=self._journal.is_shared), self._spec.replay
        voice = self._spec.open_voice(self._publish) if self._spec.open_voice is not None else None
        try:
            async with aclosing(batches):
                async for batch in batches:
                    events = batch if replay is None else [new for event in batch for new in replay.feed(event)]
                    if voice is None:
                        await self._publish(*events)
                    else:
                        await self._publish_spoken(voice, events)
        except ConflictError as error:
            if replay is None or isinstance(error, SessionBusyError):
                raise
            await self._publish(*replay.complete(error))
        finally:
            if voice is not None:
                await voice.aclose()

    async def _publish_spoken(self, voice: Speaker, events: Sequence[StreamEvent]) -> None:
        """Publish events and speak their texts. What ends the run waits until everything is spoken."""
        for event in events:
            if isinstance(event, WorkflowFinished | UserInputs):
                await voice.finish(event)
            await self._publish(event)
            voice.hear(event)

    async def _publish(self, *events: StreamEvent) -> None:
        if not events:
            return
        self.has_begun = True
        async with self._writing:
            try:
                await self._journal.append(self.head.run_id, [encode_entry(event) for event in events])
            except StreamError as error:
                self._failure = error
                raise

    def _watch_after(self, patience_s: float) -> None:
        """Cancel the run if it has no followers for so long, and the policy does not let it run to the end."""
        if math.isfinite(self._grace_s) and not self._has_read:
            self._watching = asyncio.get_running_loop().call_later(patience_s, self._start_watching)

    def _start_watching(self) -> None:
        self._watching = asyncio.create_task(self._watch())

    def _stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None

    async def _watch(self) -> None:
        """Cancel the run if it has no followers in other processes either."""
        if await self._is_followed_elsewhere():
            self._watch_after(self._away_s)
        else:
            self.run.cancel()

    async def _is_followed_elsewhere(self) -> bool:
        try:
            return await self._journal.is_followed(self.head.run_id)
        except StreamError:
            return True  # unknown; check again later


def interruption_error(run_id: str) -> StreamInterruptedError:
    """Build the error for a run that stopped before its turn had ended."""
    return StreamInterruptedError(
        f"Run {run_id} was interrupted: the process running it has stopped. "
        "Continue the session to finish it. If nothing of the turn was stored, ask again."
    )
