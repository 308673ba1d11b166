"""The agents of the settings, called through the SDK over the guarded connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec import structs

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.system_services import RandomIds
from ragflow_lg.base.errors import RagflowLgError, SettingsError
from ragflow_lg.base.extras import require
from ragflow_lg.checkpoints.check_result import CheckResult
from ragflow_lg.integrations.a2a.a2a_settings import A2aSection, A2aSections

if TYPE_CHECKING:
    from ragflow_lg.integrations.a2a.remote_answers import RemoteAnswer, Report
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.services import Ids, Services


class ConfiguredAgents:
    """The `RemoteAgents` of the settings."""

    def __init__(self, sections: Mapping[str, A2aSection], http: GuardedHttpClient, ids: Ids) -> None:
        self._sections = sections
        self._ids = ids
        self._http = http
        self._cancelling: set[asyncio.Task[None]] = set()

    def for_tenant(self, settings: Settings, services: Services) -> ConfiguredAgents:
        """Return the agents of a tenant."""
        return make_agents(settings, services.ids)

    async def ask(self, agent: str, text: str, task: str, report: Report) -> RemoteAnswer:
        """Send a text to an agent; see `RemoteAgents`."""
        call = await self._open(agent)
        try:
            return await call.ask(text, task, report)
        finally:
            if call.open_task:
                self._cancel(call)
            else:
                await call.aclose()

    async def probe(self, agent: str) -> CheckResult:
        """Read the card of an agent."""
        where = f"the A2A agent [a2a.{agent}]"
        try:
            call = await self._open(agent)
            try:
                card = await call.read_card()
            finally:
                await call.aclose()
        except RagflowLgError as error:
            return CheckResult(False, f"{where} cannot be used", str(error))
        return CheckResult(True, f"{where} is {card.name[:80]!r}")

    async def aclose(self) -> None:
        """Wait until cancelled tasks have been reported, and close the connections."""
        await asyncio.gather(*self._cancelling, return_exceptions=True)
        await self._http.aclose()

    async def _open(self, agent: str) -> Any:
        section = self._sections.get(agent)
        if section is None:
            raise SettingsError(f"There is no A2A agent {agent[:80]!r}. Add [a2a.{agent[:80]}] to the settings.")
        require("a2a", "An A2A agent")
        module = await asyncio.to_thread(import_module, "ragflow_lg.integrations.a2a.remote_call")
        return module.RemoteCall(agent, section, self._http, self._ids.run_id())

    def _cancel(self, call: Any) -> None:
        task = asyncio.get_running_loop().create_task(call.cancel())
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)


def make_agents(settings: Settings, ids: Ids) -> ConfiguredAgents:
    """Return the agents of the settings, whose addresses may be in the private network."""
    sections, http = settings.section(A2aSections), settings.http_settings
    allowed = (*http.allow, *(section.host for section in sections.values()))
    return ConfiguredAgents(sections, GuardedHttpClient(structs.replace(http, allow=allowed)), ids)


@asynccontextmanager
async def open_agents(settings: Settings, services: Services) -> AsyncGenerator[ConfiguredAgents]:
    """Open the agents of the settings."""
    async with aclosing(make_agents(settings, services.ids)) as agents:
        yield agents


async def probe_agents(settings: Settings) -> list[CheckResult]:
    """Report the card of each agent."""
    async with aclosing(make_agents(settings, RandomIds())) as agents:
        return await asyncio.gather(*(agents.probe(name) for name in settings.section(A2aSections)))
