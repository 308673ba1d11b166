"""The section for quotas: how much each tenant, and each key of embedded pages, may use."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ragflow_lg.server.settings.sections import Section

Count = Annotated[int, Field(ge=0)]
"""0 stands for no limit."""


class PageQuotasSection(Section):
    """``[quotas.pages]``: quotas of each key of embedded pages, within those of its tenant."""

    runs: Count = 20
    """Concurrent runs in one process."""
    turns_day: Count = 10_000
    tokens_day: Count = 10_000_000
    files: Count = 1_000
    file_bytes: Count = 256 * 1024**2


class TenantQuotasSection(Section):
    """``[quotas.tenants."NAME"]``: a tenant's own quotas, instead of those in ``[quotas]``."""

    runs: Count | None = None
    turns_day: Count | None = None
    tokens_day: Count | None = None
    cost_day: Annotated[float, Field(ge=0)] | None = None
    agents: Count | None = None
    versions: Count | None = None
    sessions: Count | None = None
    files: Count | None = None
    file_bytes: Count | None = None
    checkpoint_bytes: Count | None = None
    schedules: Count | None = None


class QuotasSection(Section):
    """``[quotas]``: what each tenant may use; 0 for no limit. Days begin at 00:00 UTC.

    Concurrent runs are limited by ``[server] max_runs_tenant``, files by ``max_files`` and ``max_files_bytes``, unless
    the tenant has quotas of its own for them.
    """

    turns_day: Count = 200_000
    """Turns that begin on one day. A continued or repeated turn counts again."""
    tokens_day: Count = 500_000_000
    """Tokens of the turns that begin on one day. No turn begins after they are used up."""
    cost_day: Annotated[float, Field(ge=0)] = 0.0
    """The cost of these turns according to the prices in ``[models]``."""
    agents: Count = 10_000
    versions: Count = 50_000
    """Versions of all agents, including drafts."""
    sessions: Count = 1_000_000
    checkpoint_bytes: Count = 50 * 1024**3
    """Bytes that the turns of all sessions have stored in the session store, before compression."""
    schedules: Count = 1_000
    """Schedules of all agents."""
    pages: PageQuotasSection = PageQuotasSection()
    tenants: dict[str, TenantQuotasSection] = Field(default_factory=dict[str, TenantQuotasSection])
