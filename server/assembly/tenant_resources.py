"""Settings and services by tenant: nothing in the settings is shared unless they say so."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ragflow_lg.adapters.chat.chat_settings import DEMO, is_demo
from ragflow_lg.adapters.chat.model_resolution import ConfiguredModels
from ragflow_lg.server.assembly.open_services import JoinedServers, tool_policies
from ragflow_lg.server.assembly.page_settings import NOTHING, PageSettings, takes_servers
from ragflow_lg.server.assembly.tenant_settings import DEFAULT_TENANT, find_rights, restrict_settings
from ragflow_lg.services.memories import Memories
from ragflow_lg.services.services import SupportsTenants
from ragflow_lg.services.tool_policies import ToolServers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.services import Services


class TenantResources:
    """What each tenant may use. A tenant with a section has connections, sessions and a result cache of its own.

    Models keep one limit on concurrent calls for each provider.
    """

    def __init__(
        self,
        settings: Settings,
        services: Services,
        *,
        only_tenant: str = "",
        model: str = "",
        saved: Mapping[str, PageSettings] = {},
    ) -> None:
        """Initialize. ``only_tenant`` is the server's only tenant, if it has one; ``model`` replaces all models.

        ``saved`` is what tenants have added to the settings on the page.
        """
        self._settings = settings
        self._services = services
        self._only_tenant = only_tenant
        self._model = model
        self.without_demo: set[str] = set()
        """Tenants that have chosen models on the page of a server that was started as a demo. The next start is one."""
        self._saved = dict(saved)
        self._restricted_settings: dict[str, Settings] = {}
        self._restricted_services: dict[tuple[str, bool], Services] = {}
        self._close: list[Callable[[], Awaitable[None]]] = []

    def settings(self, tenant: str) -> Settings:
        """Return the settings without what a tenant may not use."""
        if tenant not in self._restricted_settings:
            rights = find_rights(self._settings, tenant, self._only_tenant)
            if rights is None:
                settings = self.saved(tenant).apply(self._settings)
                self._restricted_settings[tenant] = settings.for_model("") if tenant in self.without_demo else settings
            else:
                self._restricted_settings[tenant] = restrict_settings(self._settings, tenant, rights)
        return self._restricted_settings[tenant]

    def services(self, tenant: str, agent: str = "") -> Services:
        """Return the services that a tenant's runs may use, or those of a demo if the agent plays one."""
        key = tenant, agent in self.saved(tenant).demo
        if key not in self._restricted_services:
            services = self._restrict(tenant)
            if key[1]:
                models = ConfiguredModels(self.settings(tenant).chat_settings(override_model=DEMO))
                services = replace(services, models=models, is_demo=True)
            self._restricted_services[key] = services
        return self._restricted_services[key]

    def owns_settings(self, tenant: str) -> bool:
        """Return whether a tenant may use everything that the settings describe, and add to them."""
        return find_rights(self._settings, tenant, self._only_tenant) is None

    def saved(self, tenant: str) -> PageSettings:
        """Return what a tenant has added to the settings on the page."""
        return self._saved.get(tenant, NOTHING)

    def save(self, tenant: str, saved: PageSettings, *, chooses_models: bool) -> None:
        """Use what a tenant has added to the settings. Runs that go on keep what they have."""
        self._saved[tenant] = saved
        if not saved.has_models:
            self.without_demo.discard(tenant)
        elif chooses_models and is_demo(self._model):
            self.without_demo.add(tenant)
        self._restricted_settings.pop(tenant, None)
        for plays_demo in (False, True):
            self._restricted_services.pop((tenant, plays_demo), None)

    async def aclose(self) -> None:
        """Close the connections of all tenants."""
        await asyncio.gather(*(close() for close in self._close))
        self._restricted_services.clear()
        self._close.clear()

    def _restrict(self, tenant: str) -> Services:
        rights = find_rights(self._settings, tenant, self._only_tenant)
        if rights is None:
            return self._share(tenant)
        from ragflow_lg.adapters.http.http_client import GuardedHttpClient

        base, settings = self._services, self.settings(tenant)
        http = GuardedHttpClient(settings.http_settings)
        self._close.append(http.aclose)
        models = base.models
        if isinstance(models, ConfiguredModels) and not self._model:
            models = models.restrict(settings.chat_settings())
        restricted = replace(
            base, models=models, http=http, tools=settings.tool_settings, policies=tool_policies(settings, base.clock)
        )
        integrations = {
            protocol: service.for_tenant(settings, restricted) if isinstance(service, SupportsTenants) else service
            for protocol, service in base.integrations.items()
        }
        return replace(restricted, integrations=integrations)

    def _share(self, tenant: str) -> Services:
        """Return all services, with the tenant's own part of the memories, and its MCP servers beside the others."""
        base, settings, saved = self._services, self.settings(tenant), self.saved(tenant)
        if saved.has_models and not settings.override_model:
            models = ConfiguredModels(settings.chat_settings())
            self._close.append(models.aclose)
            base = replace(base, models=models, is_demo=False)
        if saved is not NOTHING:
            base = replace(base, tools=settings.tool_settings, secrets=settings.secrets)
        servers: Any = base.integrations.get(ToolServers)
        if saved.mcp and takes_servers(settings) and isinstance(servers, SupportsTenants):
            own = settings.model_copy(update={"mcp": saved.servers(settings)})
            parts: Any = (servers.for_tenant(own, base), servers)
            base = replace(base, integrations={**base.integrations, ToolServers: JoinedServers(parts)})
        memories = base.integrations.get(Memories)
        if tenant == DEFAULT_TENANT or memories is None:
            return base
        return replace(base, integrations={**base.integrations, Memories: memories.of_tenant(tenant)})
