"""Quotas of tenants and of keys of embedded pages. A refusal names the quota."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from ragflow_lg.base.errors import QuotaError
from ragflow_lg.server.database.usage_repository import DAY_MS, DailyLimits, StoredQuota, UsageRepository
from ragflow_lg.server.observability.operations import find_tenant_slots

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import Row
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.server.settings.limits_section import TenantQuotasSection
    from ragflow_lg.services.chat import Usage

_ADVICE: dict[StoredQuota, str] = {
    "agents": "Delete agents that are not needed.",
    "versions": "Delete versions that are not needed.",
    "sessions": "Delete sessions that are not needed.",
    "checkpoint_bytes": "Delete sessions that are not needed.",
    "schedules": "Delete schedules that are not needed.",
}
_NOT_BEFORE = "It is renewed at 00:00 UTC."


class Limits(NamedTuple):
    """A tenant's quotas; 0 for no limit."""

    runs: int
    turns_day: int
    tokens_day: int
    cost_day: float
    agents: int
    versions: int
    sessions: int
    checkpoint_bytes: int
    schedules: int
    files: int
    file_bytes: int


def find_limits(settings: Settings, tenant: str) -> Limits:
    """Return a tenant's quotas: its own, or else those of all tenants."""
    section, server = settings.quotas, settings.server
    own: TenantQuotasSection | None = section.tenants.get(tenant)
    general = {name: getattr(section, name, 0) for name in Limits._fields}
    general |= {"runs": find_tenant_slots(server), "files": server.max_files, "file_bytes": server.max_files_bytes}
    chosen = own.model_dump(exclude_none=True) if own is not None else {}
    return Limits(**{**general, **chosen})


class Quotas:
    """The quotas of all tenants in one process. The counts are stored in the database, for all replicas."""

    def __init__(
        self, app_state: AppState, on_refusal: Callable[[str, str], None] = lambda tenant, quota: None
    ) -> None:
        """Initialize. ``on_refusal`` is called with the tenant and the quota of each refusal."""
        self._app_state = app_state
        self._storing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._on_refusal = on_refusal

    def limits(self, tenant: str) -> Limits:
        """Return a tenant's quotas, which do not change while the server runs."""
        return find_limits(self._app_state.settings, tenant)

    async def begin_turn(self, tenant: str, page_key: str = "", *rows: Row) -> None:
        """Count a turn, and store the ``rows`` that begin with it: its run, and its session if it is new.

        ``page_key`` is the id of the key of an embedded page, or ``""``.

        Raises:
            QuotaError: if a quota is used up. Nothing is stored in that case.
        """
        now_ms, limits = self._app_state.now_ms(), self.limits(tenant)
        await self._require(tenant, "checkpoint_bytes")
        owners = [DailyLimits(limits.turns_day, limits.tokens_day, limits.cost_day)]
        if page_key:
            pages = self._app_state.settings.quotas.pages
            owners.append(DailyLimits(pages.turns_day, pages.tokens_day, page_key=page_key))
        used_up = await UsageRepository(self._app_state.database, tenant).begin_turn(owners, now_ms, *rows)
        if used_up is not None:
            quota, daily = used_up.quota, used_up.limits
            limit = {"turns_day": daily.turns, "tokens_day": daily.tokens, "cost_day": daily.cost}[quota]
            renews_s = (DAY_MS - now_ms % DAY_MS) / 1000
            owner = "key of the page" if daily.page_key else "tenant"
            self._on_refusal(tenant, quota)
            raise QuotaError(quota, limit, owner, _NOT_BEFORE, renews_s=renews_s)

    @asynccontextmanager
    async def room(self, tenant: str, *quotas: StoredQuota) -> AsyncGenerator[None]:
        """Store one more of each kind in the block. A tenant's blocks wait for each other.

        Raises:
            QuotaError: if a quota is used up.
        """
        async with self._storing[tenant]:
            for quota in quotas:
                await self._require(tenant, quota)
            yield

    async def add_usage(self, tenant: str, usage: Usage) -> None:
        """Add what a component that ran alone has used to the current day."""
        tokens = usage.prompt_tokens + usage.completion_tokens
        if tokens or usage.cost:
            repository = UsageRepository(self._app_state.database, tenant)
            await repository.add_usage(tokens, usage.cost, self._app_state.now_ms())

    async def _require(self, tenant: str, quota: StoredQuota) -> None:
        limit: int = getattr(self.limits(tenant), quota)
        if limit and await UsageRepository(self._app_state.database, tenant).count(quota) >= limit:
            self._on_refusal(tenant, quota)
            raise QuotaError(quota, limit, "tenant", _ADVICE[quota])


class QuotaUse(NamedTuple):
    """A quota and how much of it is used. A limit of 0 stands for none."""

    name: str
    limit: float
    used: float


async def list_quotas(app_state: AppState, tenant: str, runs: int) -> Sequence[QuotaUse]:
    """Return a tenant's quotas. ``runs`` is the number of its runs in this process."""
    limits, usage = find_limits(app_state.settings, tenant), UsageRepository(app_state.database, tenant)
    day, (files, file_bytes) = await usage.day(app_state.now_ms()), await usage.files()
    used: dict[str, float] = {"runs": runs, "turns_day": day.turns, "tokens_day": day.tokens, "cost_day": day.cost}
    used |= {"files": files, "file_bytes": file_bytes}
    stored: tuple[StoredQuota, ...] = ("agents", "versions", "sessions", "checkpoint_bytes", "schedules")
    for quota in stored:
        used[quota] = await usage.count(quota)
    return [QuotaUse(name, getattr(limits, name), used[name]) for name in Limits._fields]
