"""Opens the services that the settings describe: models, HTTP, datasets, memories, programs, and policies of tools."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ragflow_lg.base.errors import RagflowLgError, SettingsError
from ragflow_lg.base.extras import find_entry_points, load_entry_point
from ragflow_lg.component.integration import find_services, missing_services
from ragflow_lg.services.tool_policies import ToolGuard, ToolPolicies, ToolServers

if TYPE_CHECKING:
    from ragflow_lg.adapters.recording.player import Player
    from ragflow_lg.adapters.recording.recorder import Recorder
    from ragflow_lg.adapters.workers.worker_pool import WorkerPool
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.artifacts import Artifacts
    from ragflow_lg.services.services import Clock, Services


def _open_artifacts(settings: Settings) -> Artifacts:
    """Return what keeps files. The server has its own."""
    from ragflow_lg.adapters.folder_artifacts import FolderArtifacts
    from ragflow_lg.services.artifacts import NoArtifacts

    folder = settings.run.downloads
    return NoArtifacts() if folder is None else FolderArtifacts(folder)


GUARD_GROUP = "ragflow_lg.tool_guards"


def tool_policies(settings: Settings, clock: Clock) -> ToolPolicies:
    """Create the tool policies that the settings describe.

    Raises:
        SettingsError: If a guard is not installed or is invalid. Nothing runs without a guard that was requested.
    """
    agents = settings.agents
    cache = None
    if agents.cache_tools:
        from ragflow_lg.adapters.system_services import MemoryResultCache

        cache = MemoryResultCache(agents.cache_tools, clock)
    return ToolPolicies(settings.permits, tuple(_guard(name) for name in agents.guards), cache)


def _guard(name: str) -> ToolGuard:
    matches = [entry_point for entry_point in find_entry_points(GUARD_GROUP) if entry_point.name == name]
    if len(matches) != 1:
        problem = "no installed package provides it" if not matches else "several installed packages provide it"
        raise SettingsError(f"The guard {name!r} in agents.guards cannot be used: {problem}.")
    guard: Any = load_entry_point(matches[0], "guard")
    if isinstance(guard, type):
        try:
            guard = guard()
        except Exception as error:  # third-party code may raise anything
            raise SettingsError(f"The guard {name!r} cannot be created: {type(error).__name__}: {error}.") from error
    if not callable(getattr(guard, "before", None)) or not callable(getattr(guard, "after", None)):
        raise SettingsError(f"The guard {name!r} ({matches[0].value}) lacks the methods before and after.")
    return guard


def _open_workers(settings: Settings) -> WorkerPool:
    from ragflow_lg.adapters.workers.worker_pool import WorkerPool

    limits = settings.limits
    return WorkerPool(limits.workers, limits.worker_memory_bytes)


@asynccontextmanager
async def open_services(
    settings: Settings, *, model: str = "", recording: Recorder | Player | None = None
) -> AsyncGenerator[Services]:
    """Open the services that the settings describe. ``model`` replaces every other model.

    A recording records the services or replaces them.
    """
    from ragflow_lg.adapters.chat.chat_settings import is_demo
    from ragflow_lg.adapters.chat.model_resolution import ConfiguredModels
    from ragflow_lg.adapters.http.http_client import GuardedHttpClient
    from ragflow_lg.adapters.local_files import LocalFiles
    from ragflow_lg.adapters.system_services import RandomIds, SystemClock
    from ragflow_lg.services.services import Services
    from ragflow_lg.services.speech import Speech

    clock, stack = SystemClock(), AsyncExitStack()
    policies = tool_policies(settings, clock)
    if recording is not None:
        from ragflow_lg.adapters.recording.player import Player  # its models of records are slow to build

        if isinstance(recording, Player):
            async with _open_player(recording, settings, policies) as services:
                yield services
            return
    models = ConfiguredModels(settings.chat_settings(override_model=model))
    http = GuardedHttpClient(settings.http_settings)
    workers = _open_workers(settings)
    files = LocalFiles(workers)
    try:
        services = Services(
            models,
            http,
            files,
            clock,
            RandomIds(),
            settings.tool_settings,
            policies,
            prompts=settings.prompts,
            workers=workers,
            state_limits=settings.limits.state,
            secrets=settings.secrets,
            artifacts=_open_artifacts(settings),
            is_demo=is_demo(model),
        )
        services = await stack.enter_async_context(open_integrations(settings, services))
        files.speech = services.integrations.get(Speech)
        yield recording.wrap(services) if recording is not None else services
    finally:
        await stack.aclose()
        for service in (workers, models, http):
            await service.aclose()


@asynccontextmanager
async def _open_player(player: Player, settings: Settings, policies: ToolPolicies) -> AsyncGenerator[Services]:
    """Open the services of a replay. Programs and documents are not recorded, but made again."""
    from ragflow_lg.adapters.local_files import LocalFiles
    from ragflow_lg.adapters.system_services import RandomIds, SystemClock

    async with aclosing(_open_workers(settings)) as workers:
        others = {"workers": workers, "artifacts": _open_artifacts(settings)}
        played = player.services(LocalFiles(workers), SystemClock(), RandomIds(), policies, settings.prompts, **others)
        async with open_integrations(settings, played) as services:
            yield player.wrap(services)


class JoinedServers:
    """The tool servers of several integrations: each call goes to the one that has the server."""

    def __init__(self, parts: Sequence[ToolServers]) -> None:
        self._parts = parts

    def __getattr__(self, name: str) -> Any:
        """Return a method of `ToolServers`, which begins with the id of the server."""

        def ask(server: str, *arguments: Any) -> Any:
            part = next((part for part in self._parts if part.serves(server)), self._parts[0])
            return getattr(part, name)(server, *arguments)

        if name.startswith("_") or not hasattr(ToolServers, name):
            raise AttributeError(name)
        return ask

    def for_tenant(self, settings: Settings, services: Services) -> JoinedServers:
        """Return the servers of a tenant."""
        parts: Any = self._parts
        return JoinedServers([part.for_tenant(settings, services) for part in parts])


@asynccontextmanager
async def open_integrations(settings: Settings, services: Services) -> AsyncGenerator[Services]:
    """Add the services of the integrations, but those that a recording already plays.

    The error of one that cannot be opened is raised at once if the settings describe it or the error is one of ours,
    or else where the service is asked for.
    """
    services, played = replace(services, unopened=missing_services()), services.integrations
    async with AsyncExitStack() as stack:
        for protocol, service, integration in find_services():
            other = services.integrations.get(protocol)
            if protocol in played or (other is not None and protocol is not ToolServers):
                continue
            open_service: Any = None
            try:
                open_service = integration.load(service.open)
                opened = await stack.enter_async_context(open_service(settings, services))
            except Exception as error:  # noqa: BLE001 - third-party code may raise anything
                found = error if isinstance(error, RagflowLgError) else integration.blame(service.open, error)
                has_refused = open_service is not None and found is error
                if has_refused or integration.sections.keys() & settings.model_fields_set:
                    raise found from None
                services = replace(services, unopened={**services.unopened, protocol: found})
            else:
                opened = opened if other is None else JoinedServers((other, opened))
                services = replace(services, integrations={**services.integrations, protocol: opened})
        yield services
