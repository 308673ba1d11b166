"""Webhook calls: finds the agent, limits the rate, remembers what is accepted only once, and stores test events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy import ColumnElement, delete, func, select

from ragflow_lg.base.errors import DatabaseError
from ragflow_lg.server.database.tables import (
    AgentRow,
    WebhookBucketRow,
    WebhookDeliveryRow,
    WebhookEventRow,
    WebhookTestRow,
)

if TYPE_CHECKING:
    from ragflow_lg.server.database.database import Database

_TOKEN = 1_000_000
TEST_TTL_MS = 600_000
"""How long a test's events are stored."""


async def find_agent(database: Database, agent_id: str) -> AgentRow | None:
    """Return an agent that belongs to any tenant, since webhook callers have no key that identifies a tenant."""
    return await database.first(select(AgentRow).where(AgentRow.id == agent_id))


class WebhookRepository:
    """The rate limit and the remembered calls of one agent's webhook, shared by all servers that use the database."""

    def __init__(self, database: Database, tenant: str, agent_id: str) -> None:
        self._database = database
        self._tenant = tenant
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
        statement = select(WebhookBucketRow).where(
            WebhookBucketRow.tenant == self._tenant, WebhookBucketRow.agent_id == self._agent_id
        )
        async with self._database.writing() as db:
            bucket = await db.scalar(statement.with_for_update())
            if bucket is None:
                bucket = WebhookBucketRow(agent_id=self._agent_id, micro_tokens=limit * _TOKEN, update_ms=now_ms)
                bucket.tenant = self._tenant
                db.add(bucket)
            elapsed_ms = max(0, now_ms - bucket.update_ms)
            tokens = min(limit * _TOKEN, bucket.micro_tokens + elapsed_ms * limit * _TOKEN // (period_s * 1000))
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
        table = WebhookDeliveryRow
        statement = select(table.digest).where(*self._deliveries(), table.digest == digest)
        async with self._database.writing() as db:
            await db.execute(delete(table).where(*self._deliveries(), table.expire_ms < now_ms))
            if await db.scalar(statement) is not None:
                return False
            row = table(agent_id=self._agent_id, digest=digest, expire_ms=expire_ms)
            row.tenant = self._tenant
            db.add(row)
            return True

    async def forget(self, digest: str) -> None:
        """Forget a remembered call."""
        await self._database.execute(
            delete(WebhookDeliveryRow).where(*self._deliveries(), WebhookDeliveryRow.digest == digest)
        )

    def _deliveries(self) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
        return WebhookDeliveryRow.tenant == self._tenant, WebhookDeliveryRow.agent_id == self._agent_id


class WebhookTests(Struct, frozen=True):
    """The tests for one agent's webhook. Times are epoch microseconds, which clients use as cursors."""

    database: Database
    tenant: str
    agent_id: str

    async def begin(self, test_id: str, start_us: int) -> None:
        """Begin a test, and delete expired ones."""
        old = select(WebhookTestRow.id).where(*self._tests(), WebhookTestRow.start_us < start_us - TEST_TTL_MS * 1000)
        async with self.database.writing() as db:
            expired = list(await db.scalars(old))
            for table, column in ((WebhookEventRow, WebhookEventRow.test_id), (WebhookTestRow, WebhookTestRow.id)):
                await db.execute(delete(table).where(table.tenant == self.tenant, column.in_(expired)))
            db.add(WebhookTestRow(id=test_id, tenant=self.tenant, agent_id=self.agent_id, start_us=start_us))

    async def add(self, test_id: str, events: Sequence[tuple[int, str]]) -> None:
        """Store events, given as times and JSON, in order."""
        async with self.database.writing() as db:
            statement = (WebhookEventRow.tenant == self.tenant, WebhookEventRow.test_id == test_id)
            last = await db.scalar(select(func.max(WebhookEventRow.number)).where(*statement))
            number = -1 if last is None else last
            for at_us, event in events:
                number += 1
                row = WebhookEventRow(test_id=test_id, number=number, at_us=at_us, event=event)
                row.tenant = self.tenant
                db.add(row)

    async def next(self, since_us: int) -> WebhookTestRow | None:
        """Return the first test that started after ``since_us``, or None."""
        statement = select(WebhookTestRow).where(*self._tests(), WebhookTestRow.start_us > since_us)
        return await self.database.first(statement.order_by(WebhookTestRow.start_us, WebhookTestRow.id).limit(1))

    async def get(self, test_id: str) -> WebhookTestRow | None:
        """Return a test, or None."""
        return await self.database.first(select(WebhookTestRow).where(*self._tests(), WebhookTestRow.id == test_id))

    async def events(self, test_id: str, since_us: int, limit: int) -> list[WebhookEventRow]:
        """Return a test's events after a given time, oldest first."""
        statement = (
            select(WebhookEventRow)
            .where(
                WebhookEventRow.tenant == self.tenant,
                WebhookEventRow.test_id == test_id,
                WebhookEventRow.at_us > since_us,
            )
            .order_by(WebhookEventRow.number)
            .limit(limit)
        )
        return await self.database.all(statement)

    async def delete_all(self) -> None:
        """Delete the agent's tests, rate limit and remembered calls."""
        ids = select(WebhookTestRow.id).where(*self._tests())
        async with self.database.writing() as db:
            expired = list(await db.scalars(ids))
            await db.execute(
                delete(WebhookEventRow).where(
                    WebhookEventRow.tenant == self.tenant, WebhookEventRow.test_id.in_(expired)
                )
            )
            await db.execute(delete(WebhookTestRow).where(*self._tests()))
            for table in (WebhookBucketRow, WebhookDeliveryRow):
                await db.execute(delete(table).where(table.tenant == self.tenant, table.agent_id == self.agent_id))

    def _tests(self) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
        return WebhookTestRow.tenant == self.tenant, WebhookTestRow.agent_id == self.agent_id
