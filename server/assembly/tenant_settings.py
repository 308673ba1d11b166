"""The settings as one tenant may use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.server.settings.limits_section import TenantSection

DEFAULT_TENANT = "default"
"""The tenant of the first key. What the settings describe belongs to it, unless it has a section of its own."""

OTHERS = "*"
"""Name of the section for tenants without a section."""

_T = TypeVar("_T")


def find_section(settings: Settings, tenant: str, only_tenant: str) -> TenantSection | None:
    """Return what a tenant may use, or None if it may use everything that the settings describe.

    ``only_tenant`` is the server's only tenant, or ``""`` if there are several: nothing is shared unless the settings
    say so.
    """
    from ragflow_lg.server.settings.limits_section import TenantSection

    section = settings.tenants.get(tenant)
    if section is None and tenant not in (DEFAULT_TENANT, only_tenant):
        return settings.tenants.get(OTHERS) or TenantSection()
    return section


def restrict_settings(settings: Settings, tenant: str, section: TenantSection) -> Settings:
    """Return a copy of the settings without what a tenant may not use."""
    tools = {name: tool for name, tool in settings.tools.items() if is_named(name.lower(), _lower(section.tools))}
    providers = _select(settings.providers, section.providers, has_case=False)
    copy = settings.model_copy(
        update={
            "default_model": section.default_model or settings.default_model,
            "providers": providers,
            "tools": tools,
            "embeddings": {},
            "rerankers": _select(settings.rerankers, section.rerankers),
            "memories": _select(settings.memories, section.memories),
            "speech": _select(settings.speech, section.speech),
            "transcription": settings.transcription if section.transcription else None,
            "mcp": _select(settings.mcp, section.mcp),
            "sql": settings.sql.model_copy(update={"connections": _select(settings.sql.connections, section.sql)}),
            "email": settings.email.model_copy(update={"servers": _select(settings.email.servers, section.email)}),
            "canvases": _select(settings.canvases, section.canvases),
            "http": settings.http.model_copy(update={"allow": section.http_allow}),
        }
    )
    copy.restrict_providers(tenant, _lower(section.providers))
    return copy


def describe_unshared_dataset(tenant: str, name: str) -> str:
    """Return the text about a dataset that a tenant may not use. Those of others look like missing ones."""
    return (
        f"The tenant {tenant!r} has no dataset {name[:200]!r}. "
        f'Datasets are shared by name or id in datasets of [tenants."{tenant}"].'
    )


def is_named(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a name is among the patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _select(sections: Mapping[str, _T], patterns: Sequence[str], *, has_case: bool = True) -> dict[str, _T]:
    if has_case:
        return {name: section for name, section in sections.items() if is_named(name, patterns)}
    return {name: section for name, section in sections.items() if is_named(name.lower(), _lower(patterns))}


def _lower(patterns: Sequence[str]) -> tuple[str, ...]:
    return tuple(pattern.lower() for pattern in patterns)
