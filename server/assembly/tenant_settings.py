"""The settings as one tenant may use them."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings

DEFAULT_TENANT = "default"
"""The tenant of the first key. What the settings describe belongs to it, unless it has a section of its own."""

OTHERS = "*"
"""Name of the section for tenants without a section."""

_T = TypeVar("_T")


class Rights(NamedTuple):
    """What a tenant may use of the settings, as names or patterns."""

    models: tuple[str, ...]
    keys: tuple[str, ...]
    default_model: str = ""

    def has_model(self, name: str) -> bool:
        """Return whether the tenant may use a provider, or a model by its id or its provider."""
        names = {name.lower(), name.lower().rpartition("@")[2]}
        return any(fnmatchcase(each, pattern.lower()) for each in names for pattern in self.models)

    def has_provider(self, name: str) -> bool:
        """Return whether the tenant may use a provider, or some of its models."""
        names = {name.lower(), name.lower().rpartition("@")[2]}
        patterns = {part for pattern in self.models for part in (pattern.lower(), pattern.lower().rpartition("@")[2])}
        return any(fnmatchcase(each, pattern) for each in names for pattern in patterns)

    def has_key(self, section: str, name: str) -> bool:
        """Return whether the tenant may use an entry of a section."""
        ignore = str.lower if section == "tools" else str  # the names of tools have no case
        return any(fnmatchcase(ignore(f"{section}.{name}"), ignore(pattern)) for pattern in self.keys)

    def select(self, section: str, entries: Mapping[str, _T]) -> dict[str, _T]:
        """Return the entries of a section that the tenant may use."""
        return {name: entry for name, entry in entries.items() if self.has_key(section, name)}


def find_rights(settings: Settings, tenant: str, only_tenant: str) -> Rights | None:
    """Return what a tenant may use, or None if it may use everything that the settings describe.

    ``only_tenant`` is the server's only tenant, or ``""`` if there are several: nothing is shared unless the settings
    say so.
    """
    from ragflow_lg.server.settings.limits_section import TenantSection

    owns_all = tenant in (DEFAULT_TENANT, only_tenant)
    section = settings.tenants.get(tenant)
    if section is None:
        if owns_all:
            return None
        section = settings.tenants.get(OTHERS) or TenantSection()
    others = ("*",) if owns_all else ()
    models = others if section.models is None else section.models
    return Rights(models, others if section.keys is None else section.keys, section.default_model)


def restrict_settings(settings: Settings, tenant: str, rights: Rights) -> Settings:
    """Return a copy of the settings without what a tenant may not use."""
    http = settings.http
    shared = {
        name: section.model_copy(update={section.shared: rights.select(name, getattr(section, section.shared))})
        for name, section in settings.shared.items()
    }
    copy = settings.model_copy(
        update={
            **shared,
            "default_model": rights.default_model or settings.default_model,
            "providers": {name: each for name, each in settings.providers.items() if rights.has_provider(name)},
            "tools": rights.select("tools", settings.tools),
            "embeddings": {},
            "rerankers": {id_: each for id_, each in settings.rerankers.items() if rights.has_model(id_)},
            "memories": rights.select("memories", settings.memories),
            "speech": {id_: each for id_, each in settings.speech.items() if rights.has_model(id_)},
            "transcription": settings.transcription if "transcription" in rights.keys or "*" in rights.keys else None,
            "mcp": rights.select("mcp", settings.mcp),
            "canvases": rights.select("canvases", settings.canvases),
            "http": http if rights.has_key("http", "allow") else http.model_copy(update={"allow": ()}),
        }
    )
    copy.restrict_models(tenant, rights.models)
    return copy


def describe_unshared_dataset(tenant: str, name: str) -> str:
    """Return the text about a dataset that a tenant may not use. Those of others look like missing ones."""
    return (
        f"The tenant {tenant!r} has no dataset {name[:200]!r}. "
        f'Datasets are shared as datasets.NAME in keys of [tenants."{tenant}"].'
    )
