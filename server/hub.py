"""Playing runs in tasks of their own and letting clients follow them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol

from ragflow_lg.errors import RagflowLgError, RunError
from ragflow_lg.events import AgentRecord

if TYPE_CHECKING:
    from ragflow_lg.run import Run
    from ragflow_lg.wire import WireEvent

__all__ = ["DirectHub", "Hub"]


class Hub(Protocol):
    """The runs of one process."""

    async def start(self, run: Run) -> str:
        """Begin to play a run, whether anybody follows it or not; give its id."""
        ...

    def follow(self, run_id: str, after: int = 0) -> AsyncIterator[tuple[int, WireEvent | AgentRecord]]:
        """Give the events of a run behind number ``after``, numbered from 1, to its end.

        Raises:
            RagflowLgError: at the end, if the run was refused or the engine failed.
        """
        ...

    async def cancel(self, run_id: str) -> bool:
        """Stop a run; tell whether it was being played here."""
        ...

    async def drain(self) -> None:
        """Let every run stop at the end of its superstep, and wait until all have."""
        ...


class DirectHub:
    """A hub that keeps the events of a run in memory while it is played, or followed."""

    def __init__(self) -> None:
        self._plays: dict[str, _Play] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_draining = False

    async def start(self, run: Run) -> str:
        """Begin to play a run; give its id."""
        play = _Play(run)
        run_id = run.envelope.message_id
        self._plays[run_id] = play
        if self._is_draining:
            run.drain()
        task = asyncio.create_task(play.go())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: self._plays.pop(run_id, None))
        return run_id

    def follow(self, run_id: str, after: int = 0) -> AsyncIterator[tuple[int, WireEvent | AgentRecord]]:
        """Give the events of a run from the first; it has to be called while the run is played."""
        play = self._plays.get(run_id)
        return play.events(after) if play is not None else _nothing()

    async def cancel(self, run_id: str) -> bool:
        """Stop a run; tell whether it was being played here."""
        play = self._plays.get(run_id)
        if play is None:
            return False
        play.run.cancel()
        return True

    async def drain(self) -> None:
        """Let every run stop at the end of its superstep, those too that are yet to begin, and wait until all have."""
        self._is_draining = True
        for play in self._plays.values():
            play.run.drain()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class _Play:
    def __init__(self, run: Run) -> None:
        self.run = run
        self._events: list[WireEvent | AgentRecord] = []
        self._error: RagflowLgError | None = None
        self._is_over = False
        self._news = asyncio.Condition()

    async def go(self) -> None:
        try:
            async for event in self.run:
                self._events.append(event)
                await self._tell()
        except RagflowLgError as error:
            self._error = error
        except BaseException:
            self._error = RunError("The run was broken off.")
            raise
        finally:
            self._is_over = True
            await self._tell()

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    async def _more(self, number: int) -> None:
        async with self._news:
            await self._news.wait_for(lambda: self._is_over or number < len(self._events))

    async def events(self, after: int) -> AsyncIterator[tuple[int, WireEvent | AgentRecord]]:
        number = after
        while True:
            while number < len(self._events):
                number += 1
                yield number, self._events[number - 1]
            if self._is_over:
                break
            await self._more(number)
        if self._error is not None:
            raise self._error


async def _nothing() -> AsyncIterator[tuple[int, WireEvent | AgentRecord]]:
    for pair in ():
        yield pair
