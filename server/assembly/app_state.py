"""The parts of the server, opened and closed together."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.key_ring import make_key_ring
from ragflow_lg.checkpoints.store_url import store_kind
from ragflow_lg.server.assembly.open_services import open_services
from ragflow_lg.server.assembly.page_settings import load_page_settings
from ragflow_lg.server.assembly.run_callbacks import open_callbacks
from ragflow_lg.server.assembly.tenant_resources import TenantResources
from ragflow_lg.server.database.database import Database, open_database
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.streaming.open_journal import ALIVE_S, open_journal
from ragflow_lg.server.streaming.run_manager import ARRIVAL_S, BEATS, RunManager

if TYPE_CHECKING:
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.runs.callbacks import RunCallbacks
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.server.streaming.run_queue import RunQueue
    from ragflow_lg.services.services import Services


EVENTS_KEPT_S = 300.0
"""How long a finished run's events are stored."""

QUEUE_ARRIVAL_S = 5.0
"""How long the first follower of a run may take to arrive. Its clients have been waiting since it was queued."""


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
    queue: RunQueue | None = None
    """From which servers and workers play all runs; None if each server plays its own."""
    model: str = ""
    """Replaces every model in all canvases; ``""``: each canvas's own."""

    def settings_of(self, tenant: str) -> Settings:
        """Return the settings without what a tenant may not use."""
        return self.settings if self.resources is None else self.resources.settings(tenant)

    def services_of(self, tenant: str, agent: str = "") -> Services:
        """Return the services that a tenant may use, for one of its agents if it is given."""
        return self.services if self.resources is None else self.resources.services(tenant, agent)

    @property
    def is_demo(self) -> bool:
        """Whether the demo model answers for all tenants."""
        return self.services.is_demo and not (self.resources is not None and self.resources.without_demo)

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
    settings = settings.for_model(model)
    url = settings.server.database.get_secret_value()
    async with (
        open_database(url, make_key_ring(settings.store_options["keys"])) as database,
        open_store(settings.checkpoints, **settings.store_options) as store,
        open_run_queue(settings) as queue,
        open_run_manager(settings, store, queue) as run_manager,
        open_callbacks(settings) as callbacks,
        open_services(settings, model=model) as services,
    ):
        if model:
            services.models.model(model)  # says what is wrong with its name before anybody asks
        tenants = await KeyRepository(database).tenants() | {user.tenant for user in settings.server.users.values()}
        only_tenant = tenants.pop() if len(tenants) == 1 else ""
        saved = await load_page_settings(database)
        resources = TenantResources(settings, services, only_tenant=only_tenant, model=model, saved=saved)
        try:
            parts = (settings, database, store, services, run_manager, callbacks, resources)
            yield AppState(*parts, queue=queue, model=model)
        finally:
            await resources.aclose()


def queue_url(settings: Settings) -> str:
    """Return the URL of the queue: where the sessions are if they and their events are in Redis, or ``""`` for none."""
    if url := settings.queue.url.get_secret_value():
        return url
    return settings.checkpoints if _is_shared(settings) else ""


def _journal_url(settings: Settings) -> str:
    return settings.server.journal.get_secret_value() or settings.checkpoints


def _is_shared(settings: Settings) -> bool:
    return store_kind(settings.checkpoints) == store_kind(_journal_url(settings)) == "redis"


@asynccontextmanager
async def open_run_manager(
    settings: Settings, store: Store, queue: RunQueue | None = None
) -> AsyncGenerator[RunManager]:
    """Open the run manager and its journal, which is in Redis if the checkpoints are, or at the URL in the settings.

    Raises:
        StreamError: If the journal cannot be opened.
    """
    url, prefix = _journal_url(settings), settings.checkpoint_prefix
    silence_s = (
        settings.queue.silence_s if queue is not None else ALIVE_S
    )  # a run is continued when its message is claimed
    async with open_journal(
        url, prefix=prefix, retention_s=EVENTS_KEPT_S, alive_s=silence_s, keys=store.keys
    ) as journal:
        arrival_s = QUEUE_ARRIVAL_S if queue is not None else ARRIVAL_S
        run_manager = RunManager(
            journal, arrival_s=arrival_s, heartbeat_s=silence_s / BEATS, queue=queue, keys=store.keys
        )
        try:
            yield run_manager
        finally:
            await run_manager.aclose()


@asynccontextmanager
async def open_run_queue(settings: Settings) -> AsyncGenerator[RunQueue | None]:
    """Open the queue of runs, or yield None if the settings have none.

    Raises:
        SettingsError: If what servers and workers have to share is not in Redis.
        StreamError: If Redis cannot be reached.
    """
    section = settings.queue
    if not _is_shared(settings) and (section.url.get_secret_value() or store_kind(_journal_url(settings)) == "redis"):
        raise SettingsError(
            "A queue, and a journal in Redis, need the sessions and their events in Redis: nothing else continues runs "
            "when a server dies. Set `checkpoints` in the settings file, or the environment variable "
            "RAGFLOW_LG_CHECKPOINTS, to redis://…, or remove url in [queue] and journal in [server]."
        )
    if not (url := queue_url(settings)):
        yield None
        return
    from ragflow_lg.server.streaming.run_queue import open_queue

    async with open_queue(
        url,
        secrets.token_hex(8),
        prefix=settings.checkpoint_prefix,
        silence_s=section.silence_s,
        max_waiting=max(1, settings.server.max_waiting_runs),
    ) as queue:
        yield queue
