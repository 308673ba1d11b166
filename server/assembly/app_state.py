"""The parts of the server, opened and closed together."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.adapters.workers.fair_slots import FairSlots
from ragflow_lg.checkpoints import open_store
from ragflow_lg.server.assembly.library import open_services
from ragflow_lg.server.assembly.tenant_resources import TenantResources
from ragflow_lg.server.database.database import Database, open_database
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.observability.telemetry import open_callbacks
from ragflow_lg.server.streaming import RunManager, open_journal
from ragflow_lg.server.streaming.run_manager import BEATS

if TYPE_CHECKING:
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.runs.callbacks import RunCallbacks
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.services import Services
    from ragflow_lg.services.workers import Workers


MAX_WAITING_SEARCHES = 1_000
"""How many of a tenant's searches may wait."""


class AppState(Struct, frozen=True):
    """The objects that the server's routes work with."""

    settings: Settings
    database: Database
    store: Store
    services: Services
    run_manager: RunManager
    callbacks: Sequence[RunCallbacks] = ()
    resources: TenantResources | None = None
    """What each tenant may use; None if all tenants may use everything."""
    searches: FairSlots | None = None
    """Slots for searches in datasets; None if there is no limit."""
    model: str = ""
    """Replaces every model in all canvases; ``""``: each canvas's own."""

    def settings_of(self, tenant: str) -> Settings:
        """Return the settings without what a tenant may not use."""
        return self.settings if self.resources is None else self.resources.settings(tenant)

    def services_of(self, tenant: str) -> Services:
        """Return the services that a tenant may use."""
        return self.services if self.resources is None else self.resources.services(tenant)

    def workers_of(self, tenant: str) -> Workers:
        """Return the worker processes as a tenant uses them."""
        return self.services.workers.for_tenant(tenant)

    def now_ms(self) -> int:
        """Return the current time in epoch milliseconds."""
        return int(self.services.clock.now() * 1000)

    def new_id(self) -> str:
        """Return 32 hexadecimal digits that cannot be guessed."""
        return self.services.ids.run_id()


@asynccontextmanager
async def open_app_state(settings: Settings, *, model: str = "") -> AsyncGenerator[AppState]:
    """Open everything that the settings describe. ``model`` replaces every model in all canvases.

    Raises:
        DatabaseError: If the database cannot be opened.
        CheckpointError: If the checkpoint store cannot be opened.
        StreamError: If the event journal cannot be opened.
        SettingsError: If a setting is invalid.
    """
    url = settings.server.database.get_secret_value()
    clock, prefix = SystemClock(), settings.checkpoint_prefix
    async with (
        open_database(url) as database,
        open_store(settings.checkpoints, clock, prefix=prefix, ttl_s=settings.checkpoint_ttl_s) as store,
        open_run_manager(settings, store) as run_manager,
        open_callbacks(settings) as callbacks,
        open_services(settings, model=model) as services,
    ):
        only_tenant = await _find_only_tenant(settings, database)
        resources = TenantResources(settings, services, only_tenant=only_tenant, model=model)
        try:
            searches = FairSlots(settings.limits.searches, MAX_WAITING_SEARCHES, "for a search")
            yield AppState(settings, database, store, services, run_manager, callbacks, resources, searches, model)
        finally:
            await resources.aclose()


async def _find_only_tenant(settings: Settings, database: Database) -> str:
    """Return the only tenant that has keys or users, or ``""``."""
    tenants = await KeyRepository(database).tenants() | {user.tenant for user in settings.server.users.values()}
    return tenants.pop() if len(tenants) == 1 else ""


@asynccontextmanager
async def open_run_manager(settings: Settings, store: Store) -> AsyncGenerator[RunManager]:
    """Open the run manager and its journal, which is in Redis if the checkpoints are, or at the URL in the settings.

    Raises:
        StreamError: If the journal cannot be opened.
    """
    section = settings.server
    url = section.journal.get_secret_value() or settings.checkpoints
    prefix, silence_s = settings.checkpoint_prefix, section.replica_silence_s
    async with open_journal(url, prefix=prefix, retention_s=section.events_kept_s, alive_s=silence_s) as journal:
        run_manager = RunManager(journal, store.cancels, heartbeat_s=silence_s / BEATS)
        try:
            yield run_manager
        finally:
            await run_manager.aclose()
