"""Journals of both kinds, quick ones, and hubs on them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from ragflow_lg.server.streaming.event_window import Bounds
from ragflow_lg.server.streaming.journal import MAX_RUN, Journal, RunHead
from ragflow_lg.server.streaming.memory_journal import MemoryJournal
from ragflow_lg.server.streaming.redis_journal import RedisJournal
from ragflow_lg.server.streaming.run_manager import RunManager
from ragflow_lg.wire.wire_events import Envelope

OpenJournal = Callable[..., Any]
"""Opens the same journal again and again, as replicas would; in memory there is one only."""

QUICK: dict[str, Any] = {"kept_s": 60, "quiet_s": 0.05}


@asynccontextmanager
async def redis_journal(url: str, prefix: str, max_run: Bounds = MAX_RUN, **more: Any) -> AsyncIterator[RedisJournal]:
    async with Redis.from_url(url, retry=Retry(NoBackoff(), 0), socket_timeout=5) as client:
        journal = RedisJournal(client, prefix, max_run, **{**QUICK, "alive_s": 0.5, "patience_s": 5, **more})
        yield journal
        await journal.aclose()


@asynccontextmanager
async def memory_journal(max_run: Bounds = MAX_RUN, **more: Any) -> AsyncIterator[MemoryJournal]:
    journal = MemoryJournal(max_run, **{**QUICK, **more})
    yield journal
    await journal.aclose()


@asynccontextmanager
async def hub_on(journal: Journal, **more: Any) -> AsyncIterator[RunManager]:
    run_manager = RunManager(journal, **{"arrival_s": 5, "beat_s": 0.1, **more})
    yield run_manager
    await run_manager.aclose()


def head(run_id: str) -> RunHead:
    return RunHead(Envelope(run_id, 1, "s", "s"), "run_manager", "tenant")


async def read(journal: Journal, run_id: str, after: int, count: int) -> list[tuple[int, bytes]]:
    """Read so many entries."""
    found: list[tuple[int, bytes]] = []
    async with aclosing(journal.read(run_id, after)) as pages:
        async for page in pages:
            found += [(entry.id, entry.data) for entry in page]
            if len(found) >= count:
                return found
    return found


async def said(run_manager: RunManager, run_id: str, after: int = 0) -> list[tuple[int, str]]:
    """Follow a run to its end; give the number of each event, and what it says."""
    async with aclosing(run_manager.follow(run_id, after)) as events:
        return [(number, getattr(event, "content", event.event)) async for number, event in events]
