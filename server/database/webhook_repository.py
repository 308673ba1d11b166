"""Calls of webhooks: whose agent is called, how often it may be, and what tests of it have shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy import ColumnElement, delete, func, select

from ragflow_lg.base.errors import DatabaseError
from ragflow_lg.server.database.tables import AgentRow, WebhookBucketRow, WebhookEventRow, WebhookTestRow

if TYPE_CHECKING:
    from ragflow_lg.server.database.database import Database

__all__ = ["TEST_TTL_MS", "WebhookRepository", "WebhookTests", "find_agent"]

_TOKEN = 1_000_000
TEST_TTL_MS = 600_000
"""How long the events of a test are kept."""


async def find_agent(database: Database, agent_id: str) -> AgentRow | None:
    """Give an agent, whoever's it is: callers of webhooks have no key that would tell."""
    async with database.reading() as reading:
        return await reading.scalar(select(AgentRow).where(AgentRow.id == agent_id))


class WebhookRepository:
    """The rate of one agent's webhook, the same for all servers of a database."""

    def __init__(self, database: Database, tenant: str, agent_id: str) -> None:
        self._database = database
        self._tenant = tenant
        self._agent_id = agent_id

    async def take(self, limit: int, period_s: int, now_ms: int) -> float:
        """Take a token of a bucket that holds ``limit`` and fills up in ``period_s``.

        Gives 0 if there was one, else the seconds until there is.
        """
        try:
            return await self._take(limit, period_s, now_ms)
        except DatabaseError:
            return await self._take(limit, period_s, now_ms)  # another server has just made the bucket

    async def _take(self, limit: int, period_s: int, now_ms: int) -> float:
        wanted = select(WebhookBucketRow).where(
            WebhookBucketRow.tenant == self._tenant, WebhookBucketRow.agent_id == self._agent_id
        )
        async with self._database.writing() as writing:
            bucket = await writing.scalar(wanted.with_for_update())
            if bucket is None:
                bucket = WebhookBucketRow(agent_id=self._agent_id, micro_tokens=limit * _TOKEN, update_ms=now_ms)
                bucket.tenant = self._tenant
                writing.add(bucket)
            passed_ms = max(0, now_ms - bucket.update_ms)
            held = min(limit * _TOKEN, bucket.micro_tokens + passed_ms * limit * _TOKEN // (period_s * 1000))
            bucket.update_ms = max(now_ms, bucket.update_ms)
            is_there = held >= _TOKEN
            bucket.micro_tokens = held - _TOKEN if is_there else held
            return 0.0 if is_there else max(1.0, (_TOKEN - held) * period_s / limit / _TOKEN)


class WebhookTests(Struct, frozen=True):
    """The tests of one agent's webhook. Times are epoch microseconds: they are what clients go on from."""

    database: Database
    tenant: str
    agent_id: str

    async def begin(self, test_id: str, start_us: int) -> None:
        """Begin a test; those of long ago go."""
        old = select(WebhookTestRow.id).where(*self._tests(), WebhookTestRow.start_us < start_us - TEST_TTL_MS * 1000)
        async with self.database.writing() as writing:
            gone = list(await writing.scalars(old))
            for table, column in ((WebhookEventRow, WebhookEventRow.test_id), (WebhookTestRow, WebhookTestRow.id)):
                await writing.execute(delete(table).where(table.tenant == self.tenant, column.in_(gone)))
            writing.add(WebhookTestRow(id=test_id, tenant=self.tenant, agent_id=self.agent_id, start_us=start_us))

    async def add(self, test_id: str, events: Sequence[tuple[int, str]]) -> None:
        """Store events: their time and their JSON, in order."""
        async with self.database.writing() as writing:
            wanted = (WebhookEventRow.tenant == self.tenant, WebhookEventRow.test_id == test_id)
            last = await writing.scalar(select(func.max(WebhookEventRow.number)).where(*wanted))
            number = -1 if last is None else last
            for at_us, event in events:
                number += 1
                row = WebhookEventRow(test_id=test_id, number=number, at_us=at_us, event=event)
                row.tenant = self.tenant
                writing.add(row)

    async def next(self, since_us: int) -> WebhookTestRow | None:
        """Give the first test that began later."""
        wanted = select(WebhookTestRow).where(*self._tests(), WebhookTestRow.start_us > since_us)
        async with self.database.reading() as reading:
            return await reading.scalar(wanted.order_by(WebhookTestRow.start_us, WebhookTestRow.id).limit(1))

    async def get(self, test_id: str) -> WebhookTestRow | None:
        """Give a test."""
        async with self.database.reading() as reading:
            return await reading.scalar(select(WebhookTestRow).where(*self._tests(), WebhookTestRow.id == test_id))

    async def events(self, test_id: str, since_us: int, limit: int) -> list[WebhookEventRow]:
        """Give the events of a test behind a time, oldest first."""
        wanted = (
            select(WebhookEventRow)
            .where(
                WebhookEventRow.tenant == self.tenant,
                WebhookEventRow.test_id == test_id,
                WebhookEventRow.at_us > since_us,
            )
            .order_by(WebhookEventRow.number)
            .limit(limit)
        )
        async with self.database.reading() as reading:
            return list(await reading.scalars(wanted))

    async def delete_all(self) -> None:
        """Forget all tests of the agent, and its rate."""
        ids = select(WebhookTestRow.id).where(*self._tests())
        of_bucket = (WebhookBucketRow.tenant == self.tenant, WebhookBucketRow.agent_id == self.agent_id)
        async with self.database.writing() as writing:
            gone = list(await writing.scalars(ids))
            await writing.execute(
                delete(WebhookEventRow).where(WebhookEventRow.tenant == self.tenant, WebhookEventRow.test_id.in_(gone))
            )
            await writing.execute(delete(WebhookTestRow).where(*self._tests()))
            await writing.execute(delete(WebhookBucketRow).where(*of_bucket))

    def _tests(self) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
        return WebhookTestRow.tenant == self.tenant, WebhookTestRow.agent_id == self.agent_id
