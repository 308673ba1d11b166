"""Journals of both kinds with short timeouts, and run managers on them."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from ragflow_lg.base.errors import StreamError
from ragflow_lg.runs.wire.wire_events import Envelope
from ragflow_lg.server.streaming.journal import MAX_RUN, Bounds, Journal, RunHead
from ragflow_lg.server.streaming.memory_journal import MemoryJournal
from ragflow_lg.server.streaming.redis_journal import RedisJournal
from ragflow_lg.server.streaming.run_manager import RunManager

OpenJournal = Callable[..., Any]
"""Opens a journal on the same storage each time, as replicas do; in memory each journal is new."""

SHORT_WAITS: dict[str, Any] = {"retention_s": 60, "quiet_s": 0.05}


class GatedJournal(MemoryJournal):
    """Waits for a gate before it stores, and can fail."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.sizes: list[int] = []
        self.is_broken = False

    async def append(self, run_id: str, data: Sequence[bytes], *, is_last: bool = False) -> None:
        await self.gate.wait()
        if self.is_broken:
            raise StreamError("The event journal failed: gone.")
        self.sizes.append(len(data))
        await super().append(run_id, data, is_last=is_last)


def connect(url: str, **options: Any) -> Any:
    """Return a client of redis-py, whose types are incomplete."""
    return cast("Any", Redis).from_url(url, **options)


@asynccontextmanager
async def redis_journal(url: str, prefix: str, max_run: Bounds = MAX_RUN, **more: Any) -> AsyncGenerator[RedisJournal]:
    async with connect(url, retry=Retry(NoBackoff(), 0), socket_timeout=5) as client:
        waits: dict[str, Any] = {**SHORT_WAITS, "alive_s": 0.6, "patience_s": 5, **more}
        journal = RedisJournal(client, prefix, max_run, **waits)
        yield journal
        await journal.aclose()


@asynccontextmanager
async def memory_journal(max_run: Bounds = MAX_RUN, **more: Any) -> AsyncGenerator[MemoryJournal]:
    journal = MemoryJournal(max_run, **{**SHORT_WAITS, **more})
    yield journal
    await journal.aclose()


@asynccontextmanager
async def open_manager(
    journal: Journal, *, arrival_s: float = 5, heartbeat_s: float = 0.1
) -> AsyncGenerator[RunManager]:
    run_manager = RunManager(journal, arrival_s=arrival_s, heartbeat_s=heartbeat_s)
    yield run_manager
    await run_manager.aclose()


def head(run_id: str) -> RunHead:
    return RunHead(Envelope(run_id, 1, "s", "s"), "run_manager", "tenant")


async def read(journal: Journal, run_id: str, after: int, count: int) -> list[tuple[int, bytes]]:
    """Read ``count`` entries."""
    entries: list[tuple[int, bytes]] = []
    async with aclosing(journal.read(run_id, after)) as pages:
        async for page in pages:
            entries += [(entry.id, entry.data) for entry in page]
            if len(entries) >= count:
                return entries
    return entries


async def follow_to_end(run_manager: RunManager, run_id: str, after: int = 0) -> list[tuple[int, str]]:
    """Follow a run to its end; return the number and the content of each event."""
    async with aclosing(run_manager.follow(run_id, after)) as events:
        return [(number, getattr(event, "content", event.event)) async for number, event in events]
