"""The services that the runs of a tenant's agent use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ragflow_lg.server.agents.artifact_files import TenantArtifacts
from ragflow_lg.server.agents.file_store import TenantFiles, file_store
from ragflow_lg.server.agents.visitors import has_secret

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.services.services import Services


def tenant_services(
    app_state: AppState, tenant: str, agent: str = "", *, visitor: str = "", is_page: bool = False
) -> Services:
    """Return the services for the runs of a tenant's agent, with access to its uploads.

    ``visitor`` is the visitor of an embedded page whose session it is, or ``""``. If the page also begins the runs,
    they have access only to files of the visitor for the agent and, if it has a secret, to memories of its own.
    """
    services = app_state.services_of(tenant)
    workers, store = services.workers, file_store(app_state, tenant)
    return replace(
        services,
        files=TenantFiles(store, workers, services.speech, *((agent, visitor) if is_page else ())),
        artifacts=TenantArtifacts(app_state, store, workers, agent, visitor, is_page),
        memories=services.memories.for_agent(agent, _find_realm(agent, visitor) if is_page else ""),
    )


def _find_realm(agent: str, visitor: str) -> str:
    return f"page {agent}/{visitor}/" if has_secret(visitor) else f"page {agent}/"
