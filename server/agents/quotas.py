"""What each tenant, and each key of embedded pages, may use of a day. A refusal names the quota."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ragflow_lg.base.errors import QuotaError
from ragflow_lg.server.assembly.tenant_settings import DEFAULT_TENANT, OTHERS
from ragflow_lg.server.database.usage_repository import DAY_MS, DailyLimit, UsageRepository
from ragflow_lg.server.observability.operations import find_tenant_slots

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.tables import Row
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.chat import Usage

PAGE_RUNS = 20
"""How many runs of a key of embedded pages are active in one process."""
PAGE_TOKENS_DAY = 10_000_000
"""How many tokens such a key uses on one day."""
TOKENS_DAY = 500_000_000
"""How many tokens a tenant uses on one day, unless it has a section."""


class Limits(NamedTuple):
    """A tenant's quotas; 0 for no limit."""

    runs: int
    tokens_day: int


def find_limits(settings: Settings, tenant: str) -> Limits:
    """Return a tenant's quotas: its own, or else those of others, which the tenant ``default`` is not."""
    section = settings.tenants.get(tenant)
    if section is None and tenant != DEFAULT_TENANT:
        section = settings.tenants.get(OTHERS)
    runs, tokens = (None, None) if section is None else (section.runs, section.tokens_day)
    return Limits(
        find_tenant_slots(settings.server) if runs is None else runs, TOKENS_DAY if tokens is None else tokens
    )


class Quotas:
    """The quotas of all tenants in one process. What is used is stored in the database, for all replicas."""

    def __init__(
        self, app_state: AppState, on_refusal: Callable[[str, str], None] = lambda tenant, quota: None
    ) -> None:
        """Initialize. ``on_refusal`` is called with the tenant and the quota of each refusal."""
        self._app_state = app_state
        self._on_refusal = on_refusal

    async def begin_turn(self, tenant: str, page_key: str = "", *rows: Row) -> None:
        """Count a turn, and store the ``rows`` that begin with it: its run, and its session if it is new.

        ``page_key`` is the id of the key of an embedded page, or ``""``.

        Raises:
            QuotaError: if the tokens of the day are used up. Nothing is stored in that case.
            RequestError: If the session of the run has been deleted.
        """
        now_ms = self._app_state.now_ms()
        limits = [DailyLimit(find_limits(self._app_state.settings, tenant).tokens_day)]
        if page_key:
            limits.append(DailyLimit(PAGE_TOKENS_DAY, page_key))
        used_up = await UsageRepository(self._app_state.database, tenant).begin_turn(limits, now_ms, *rows)
        if used_up is not None:
            owner = "key of the page" if used_up.page_key else "tenant"
            renews_s = (DAY_MS - now_ms % DAY_MS) / 1000
            self._on_refusal(tenant, "tokens_day")
            raise QuotaError("tokens_day", used_up.tokens, owner, "It is renewed at 00:00 UTC.", renews_s=renews_s)

    async def add_usage(self, tenant: str, usage: Usage) -> None:
        """Add what a component that ran alone has used to the current day."""
        tokens = usage.prompt_tokens + usage.completion_tokens
        if tokens or usage.cost:
            repository = UsageRepository(self._app_state.database, tenant)
            await repository.add_usage(tokens, usage.cost, self._app_state.now_ms())


class QuotaUse(NamedTuple):
    """A quota and how much of it is used. A limit of 0 stands for none."""

    name: str
    limit: float
    used: float


async def list_quotas(app_state: AppState, tenant: str, runs: int) -> Sequence[QuotaUse]:
    """Return a tenant's quotas. ``runs`` is the number of its runs in this process."""
    limits = find_limits(app_state.settings, tenant)
    day = await UsageRepository(app_state.database, tenant).day(app_state.now_ms())
    return [QuotaUse("runs", limits.runs, runs), QuotaUse("tokens_day", limits.tokens_day, day.tokens)]
