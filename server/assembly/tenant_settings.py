"""The settings as one tenant may use them."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings

DEFAULT_TENANT = "default"
"""The tenant of the first key. What the settings describe belongs to it, unless it has a section of its own."""

OTHERS = "*"
"""Name of the section for tenants without a section."""


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

    def has_key(self, section: str, name: str = "") -> bool:
        """Return whether the tenant may use an entry of a section, or the whole section."""
        ignore = str.lower if section == "tools" else str  # the names of tools have no case
        key = f"{section}.{name}" if name else section
        return any(fnmatchcase(ignore(key), ignore(pattern)) for pattern in self.keys)

    def restrict(self, section: str, value: Any) -> Any:
        """Return a section, or a table of sections, with what the tenant may use."""
        if isinstance(value, dict):
            entries = cast("dict[str, Any]", value).items()
            return {name: each for name, each in entries if self._has_entry(section, name, each)}
        if value.shared == "*":
            return value if self.has_key(section) else type(value)()
        return value.model_copy(update={value.shared: self.restrict(section, getattr(value, value.shared))})

    def _has_entry(self, section: str, name: str, entry: Any) -> bool:
        from ragflow_lg.server.settings.sections import EndpointSection

        return self.has_model(name) if isinstance(entry, EndpointSection) else self.has_key(section, name)


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
    copy = settings.model_copy(
        update={
            **{name: rights.restrict(name, value) for name, value in settings.shared.items()},
            "default_model": rights.default_model or settings.default_model,
            "providers": {name: each for name, each in settings.providers.items() if rights.has_provider(name)},
            "embeddings": {},
            "http": http if rights.has_key("http", "allow") else http.model_copy(update={"allow": ()}),
        }
    )
    copy.restrict(tenant, rights.models, rights.keys)
    return copy


def rights_in(settings: Settings) -> Rights:
    """Return what the tenant of restricted settings may use."""
    return Rights(*settings.shared_patterns)


def describe_unshared_dataset(tenant: str, name: str) -> str:
    """Return the text about a dataset that a tenant may not use. Those of others look like missing ones."""
    return (
        f"The tenant {tenant!r} has no dataset {name[:200]!r}. "
        f'Datasets are shared as datasets.NAME in keys of [tenants."{tenant}"].'
    )
