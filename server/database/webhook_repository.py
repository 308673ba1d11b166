"""Webhook calls: finds the agent, limits the rate, remembers what is accepted only once, and stores test events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, delete, func, select

from ragflow_lg.base.errors import DatabaseError
from ragflow_lg.server.database.database import Database, TenantRepository, matching
from ragflow_lg.server.database.tables import (
    AgentRow,
    WebhookBucketRow,
    WebhookDeliveryRow,
    WebhookEventRow,
    WebhookTestRow,
)

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

_TOKEN = 1_000_000
TEST_TTL_MS = 600_000
"""How long a test's events are stored."""


async def find_agent(database: Database, agent_id: str) -> AgentRow | None:
    """Return an agent that belongs to any tenant, since webhook callers have no key that identifies a tenant."""
    return await database.first(select(AgentRow).where(AgentRow.id == agent_id))


class WebhookRepository(TenantRepository[WebhookDeliveryRow]):
    """The rate limit and the remembered calls of one agent's webhook, shared by all servers that use the database."""

    table = WebhookDeliveryRow

    def __init__(self, database: Database, tenant: str, agent_id: str) -> None:
        super().__init__(database, tenant)
        self._agent_id = agent_id

    async def take(self, limit: int, period_s: int, now_ms: int) -> float:
        """Take a token from a bucket that contains ``limit`` tokens and refills in ``period_s`` seconds.

        Returns 0 if a token was available, or else the number of seconds until one will be.
        """
        try:
            return await self._take(limit, period_s, now_ms)
        except DatabaseError:
            return await self._take(limit, period_s, now_ms)  # another server has just created the bucket

    async def _take(self, limit: int, period_s: int, now_ms: int) -> float:
        full, mine = limit * _TOKEN, {"tenant": self._tenant, "agent_id": self._agent_id}
        async with self._database.writing() as db:
            find = select(WebhookBucketRow).where(*matching(WebhookBucketRow, **mine))
            bucket = await db.scalar(find.with_for_update())
            if bucket is None:
                bucket = WebhookBucketRow(micro_tokens=full, update_ms=now_ms, **mine)
                db.add(bucket)
            elapsed_ms = max(0, now_ms - bucket.update_ms)
            tokens = min(full, bucket.micro_tokens + elapsed_ms * full // (period_s * 1000))
            bucket.update_ms = max(now_ms, bucket.update_ms)
            has_token = tokens >= _TOKEN
            bucket.micro_tokens = tokens - _TOKEN if has_token else tokens
            return 0.0 if has_token else max(1.0, (_TOKEN - tokens) * period_s / limit / _TOKEN)

    async def remember(self, digest: str, expire_ms: int, now_ms: int) -> bool:
        """Remember a call until a time. Return whether it was new. Expired ones are forgotten."""
        try:
            return await self._remember(digest, expire_ms, now_ms)
        except DatabaseError:
            return await self._remember(digest, expire_ms, now_ms)  # another server has just remembered it

    async def _remember(self, digest: str, expire_ms: int, now_ms: int) -> bool:
        table, mine = WebhookDeliveryRow, {"tenant": self._tenant, "agent_id": self._agent_id}
        async with self._database.writing() as db:
            await db.execute(delete(table).where(*matching(table, **mine), table.expire_ms < now_ms))
            if await db.scalar(select(table.digest).where(*matching(table, digest=digest, **mine))) is not None:
                return False
            db.add(table(digest=digest, expire_ms=expire_ms, **mine))
            return True

    async def forget(self, digest: str) -> None:
        """Forget a remembered call."""
        mine = self._mine(agent_id=self._agent_id, digest=digest)
        await self._database.execute(delete(WebhookDeliveryRow).where(*mine))


class WebhookTests(TenantRepository[WebhookTestRow]):
    """The tests for one agent's webhook. Times are epoch microseconds, which clients use as cursors."""

    table = WebhookTestRow

    def __init__(self, database: Database, tenant: str, agent_id: str) -> None:
        super().__init__(database, tenant)
        self._agent_id = agent_id

    async def begin(self, test_id: str, start_us: int) -> None:
        """Begin a test, and delete expired ones."""
        expired = WebhookTestRow.start_us < start_us - TEST_TTL_MS * 1000
        async with self._database.writing() as db:
            await self._delete(db, expired)
            db.add(WebhookTestRow(id=test_id, tenant=self._tenant, agent_id=self._agent_id, start_us=start_us))

    async def add_events(self, test_id: str, events: Sequence[tuple[int, str]]) -> None:
        """Store events, given as times and JSON, in order."""
        of_test, ids = self._mine(WebhookEventRow, test_id=test_id), {"tenant": self._tenant, "test_id": test_id}
        async with self._database.writing() as db:
            last = await db.scalar(select(func.max(WebhookEventRow.number)).where(*of_test))
            for number, (at_us, event) in enumerate(events, 0 if last is None else last + 1):
                db.add(WebhookEventRow(number=number, at_us=at_us, event=event, **ids))

    async def next(self, since_us: int) -> WebhookTestRow | None:
        """Return the first test that started after ``since_us``, or None."""
        later = self._select(agent_id=self._agent_id).where(WebhookTestRow.start_us > since_us)
        return await self._database.first(later.order_by(WebhookTestRow.start_us, WebhookTestRow.id).limit(1))

    async def get(self, id_: str) -> WebhookTestRow | None:
        """Return a test, or None."""
        return await self._database.first(self._select(agent_id=self._agent_id, id=id_))

    async def events(self, test_id: str, since_us: int, limit: int) -> list[WebhookEventRow]:
        """Return a test's events after a given time, oldest first."""
        of_test = self._mine(WebhookEventRow, test_id=test_id)
        later = select(WebhookEventRow).where(*of_test, WebhookEventRow.at_us > since_us)
        return await self._database.all(later.order_by(WebhookEventRow.number).limit(limit))

    async def delete_all(self) -> None:
        """Delete the agent's tests, rate limit and remembered calls."""
        async with self._database.writing() as db:
            await self._delete(db)
            for table in (WebhookBucketRow, WebhookDeliveryRow):
                await db.execute(delete(table).where(*self._mine(table, agent_id=self._agent_id)))

    async def _delete(self, db: AsyncSession, *conditions: ColumnElement[bool]) -> None:
        """Delete tests with their events."""
        ids = list(await db.scalars(select(WebhookTestRow.id).where(*self._mine(agent_id=self._agent_id), *conditions)))
        await db.execute(delete(WebhookEventRow).where(*self._mine(WebhookEventRow, test_id=ids)))
        await db.execute(delete(WebhookTestRow).where(*self._mine(id=ids)))
