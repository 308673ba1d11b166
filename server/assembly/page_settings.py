"""What a tenant adds to the settings on the page: providers, models in place of others, tools' keys, MCP servers.

It has the format of the settings, and is stored in the database as JSON, encrypted if the settings have keys for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

import orjson
from pydantic import Field, TypeAdapter
from sqlalchemy import delete, select

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.database.tables import TenantSettingsRow
from ragflow_lg.server.settings.sections import KeySection, ModelSection, ProviderSection, Section, ToolSection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ragflow_lg.server.database.database import Database
    from ragflow_lg.server.settings import Settings


class ServerEntry(KeySection):
    """An MCP server with a URL. Its key is sent as a bearer token."""

    url: str
    type: Literal["sse", "streamable-http"] = "streamable-http"

    def section(self) -> dict[str, Any]:
        """Return it as the settings have it."""
        section = {"type": self.type, "url": self.url.replace("$", "$$")}  # no variable may change what was checked
        if key := self.api_key.read():
            section |= {"headers": {"Authorization": "Bearer $token"}, "variables": {"token": key}}
        return section


class PageSettings(Section):
    """Sections that replace those of the settings with the same names."""

    providers: dict[str, ProviderSection] = Field(default_factory=dict[str, ProviderSection])
    models: dict[str, ModelSection] = Field(default_factory=dict[str, ModelSection])
    """Of these, only ``use`` counts."""
    tools: dict[str, ToolSection] = Field(default_factory=dict[str, ToolSection])
    mcp: dict[str, ServerEntry] = Field(default_factory=dict[str, ServerEntry])
    default_model: str = ""
    demo: tuple[str, ...] = ()
    """The ids of the agents for which the demo model answers."""

    @property
    def has_models(self) -> bool:
        """Whether it says anything about models."""
        return bool(self.providers or self.models or self.default_model)

    def apply(self, settings: Settings) -> Settings:
        """Return the settings with these sections."""
        models = {id_: settings.models.get(id_, ModelSection()) for id_ in self.models}
        models = {id_: each.model_copy(update={"use": self.models[id_].use}) for id_, each in models.items()}
        update = {
            "providers": {**settings.providers, **self.providers},
            "models": {**settings.models, **models},
            "tools": {**settings.tools, **self.tools},
            "default_model": self.default_model or settings.default_model,
        }
        if self.mcp and takes_servers(settings):
            update["mcp"] = {**getattr(settings, "mcp", {}), **self.servers(settings)}
        return settings if self == NOTHING else settings.model_copy(update=update)

    def servers(self, settings: Settings) -> dict[str, Any]:
        """Return the MCP servers as the settings have them."""
        servers = {name: each.section() for name, each in self.mcp.items()}
        sections: Any = type(settings).model_fields["mcp"].annotation
        return TypeAdapter(sections).validate_python(servers)

    def change(self, change: Mapping[str, Any]) -> PageSettings:
        """Return the sections with others. An entry replaces the one with its name, and None removes it."""
        stored = self.dump()
        for name, value in change.items():
            if isinstance(value, dict):
                entries = {**stored[name], **cast("dict[str, Any]", value)}
                value = {key: entry for key, entry in entries.items() if entry is not None}
            stored[name] = value
        return PageSettings.model_validate(stored)

    def dump(self) -> dict[str, Any]:
        """Return everything as JSON can hold it, with the keys."""
        keyed = {"providers": self.providers, "tools": self.tools, "mcp": self.mcp}
        sections = {
            name: {
                key: {**each.model_dump(exclude_unset=True), "api_key": each.api_key.read()}
                for key, each in entries.items()
            }
            for name, entries in keyed.items()
        }
        models = {id_: {"use": each.use} for id_, each in self.models.items()}
        return {**sections, "models": models, "default_model": self.default_model, "demo": self.demo}


NOTHING = PageSettings()


def takes_servers(settings: Settings) -> bool:
    """Return whether the settings can have MCP servers: they have no section for them without the integration."""
    return "mcp" in type(settings).model_fields


async def load_page_settings(database: Database) -> dict[str, PageSettings]:
    """Return what tenants have added to the settings.

    Raises:
        SettingsError: if it is encrypted with a key that the settings lack.
    """
    rows = await database.all(select(TenantSettingsRow))
    try:
        return {row.tenant: PageSettings.model_validate(orjson.loads(row.settings)) for row in rows}
    except ValueError:  # with another key, or none, a text is read as the reason for that
        raise SettingsError(
            "What was saved on the page cannot be read: it needs the key in [[encryption_keys]] with which it was "
            "written. Set it, or delete the rows of the table tenant_settings."
        ) from None


async def store_page_settings(database: Database, tenant: str, saved: PageSettings) -> None:
    """Store what a tenant has added to the settings."""
    async with database.writing() as db:
        await db.execute(delete(TenantSettingsRow).where(TenantSettingsRow.tenant == tenant))
        db.add(TenantSettingsRow(tenant=tenant, settings=orjson.dumps(saved.dump()).decode()))
