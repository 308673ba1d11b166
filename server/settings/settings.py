"""All settings, and their conversion to other packages' settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from pydantic import Field, PrivateAttr, create_model, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from typing_extensions import TypedDict

from ragflow_lg.adapters.chat.chat_settings import DEMO, ChatModelSettings, ModelSettings, ProviderSettings
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.adapters.known_providers import PROVIDERS, find_provider, provider_of_model
from ragflow_lg.adapters.model_endpoint import EmbeddingSettings
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.checkpoints.store_url import find_passwords
from ragflow_lg.component.integration import find_integrations
from ragflow_lg.dsl.compatibility import Compatibility
from ragflow_lg.server.settings.compat_choices import CompatChoices
from ragflow_lg.server.settings.encryption_section import EncryptionKeySection, to_keys
from ragflow_lg.server.settings.limits_section import LimitsSection, PausesSection, TenantSection
from ragflow_lg.server.settings.prompts_section import PromptsSection
from ragflow_lg.server.settings.provider_variables import find_address, find_key
from ragflow_lg.server.settings.secret import Secret
from ragflow_lg.server.settings.sections import (
    AgentsSection,
    CrawlerSection,
    EmbeddingSection,
    HttpSection,
    ModelSection,
    ProviderSection,
    RerankerSection,
    Section,
    ToolSection,
)
from ragflow_lg.server.settings.server_section import (
    OtelSection,
    QueueSection,
    RetentionSection,
    RunSection,
    ServerSection,
)
from ragflow_lg.services.encryption import EncryptionKey
from ragflow_lg.services.sessions import Durability
from ragflow_lg.services.tool_policies import CrawlerRules, ToolPermits, ToolSettings

PREFIX = "RAGFLOW_LG_"
"""Variables are ``RAGFLOW_LG_NAME`` or ``RAGFLOW_LG_SECTION__NAME``, case-insensitive."""

_DEFAULT_MODELS = {"OpenAI": "gpt-4.1-mini@OpenAI", "Tongyi-Qianwen": "qwen-plus@Tongyi-Qianwen"}
"""The model for nodes that name none, by the known provider."""


_UNSHARED = ("providers", "models", "embeddings", "datasets", "compat", "prompts", "tenants")
"""Tables that all tenants have, or that have rules of their own."""

T = TypeVar("T")


class StoreOptions(TypedDict):
    """The options of `ragflow_lg.checkpoints.open_store`."""

    prefix: str
    ttl_s: int
    durability: Durability
    keys: tuple[EncryptionKey, ...]


class CoreSettings(BaseSettings):
    """The settings of the core. Keys are `SecretStr`, so that neither ``repr`` nor errors show them."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True, hide_input_in_errors=True
    )

    default_model: str = ""
    """``llm_id`` for nodes that do not specify a model. ``demo`` is a scripted model that needs no key. Default:
    ``gpt-4.1-mini@OpenAI`` if ``OPENAI_API_KEY`` is set, ``qwen-plus@Tongyi-Qianwen`` if ``DASHSCOPE_API_KEY`` is,
    otherwise ``demo``."""
    checkpoints: Annotated[str, Field(repr=False)] = "sqlite:///ragflow-lg.db"
    """URL of the session store: ``memory://``, ``sqlite:///PATH``, ``postgresql://…`` or ``redis://…``."""
    checkpoint_prefix: str = ""
    """Prefix for this deployment's keys in Redis and its schema in PostgreSQL, if several share a server."""
    checkpoint_ttl_s: Annotated[int, Field(gt=0)] = 30 * 24 * 3600
    """How long Redis keeps an unused session. Must exceed the longest wait for an answer."""
    checkpoint_durability: Durability = "effects"
    """With ``effects``, nodes without effects that follow each other, such as a Switch, share a stored step."""
    encryption_keys: tuple[EncryptionKeySection, ...] = ()
    """The keys that encrypt what is stored: sessions, events, uploaded files. See ``docs/sessions.md``."""
    providers: dict[str, ProviderSection] = Field(default_factory=dict[str, ProviderSection])
    models: dict[str, ModelSection] = Field(default_factory=dict[str, ModelSection])
    tools: dict[str, ToolSection] = Field(default_factory=dict[str, ToolSection])
    embeddings: dict[str, EmbeddingSection] = Field(default_factory=dict[str, EmbeddingSection])
    rerankers: dict[str, RerankerSection] = Field(default_factory=dict[str, RerankerSection])
    http: HttpSection = HttpSection()
    crawler: CrawlerSection = CrawlerSection()
    run: RunSection = RunSection()
    agents: AgentsSection = AgentsSection()
    canvases: dict[str, Path] = Field(default_factory=dict[str, Path])
    """Canvases that others can run, by name. Paths in a file are relative to its folder."""
    compat: CompatChoices = Field(default_factory=dict[str, Any])
    """Behaviours of RAGFlow, for canvases that do not choose them: true or false by name (``docs/fidelity.md``);
    ``all`` stands for all. ``ragflow`` is the RAGFlow whose HTTP API clients get: ``"0.27"`` (default) or ``"1.0"``
    (``docs/ragflow_1.md``)."""
    prompts: PromptsSection = Field(default_factory=dict[str, str])
    """Texts that replace the engine's own prompts, by name. ``style = "ragflow"`` makes the others ask as RAGFlow's do
    (``docs/agents.md``)."""
    limits: LimitsSection = LimitsSection()
    otel: OtelSection = OtelSection()
    server: ServerSection = ServerSection()
    queue: QueueSection = QueueSection()
    pauses: PausesSection = PausesSection()
    retention: RetentionSection = RetentionSection()
    tenants: dict[str, TenantSection] = Field(default_factory=dict[str, TenantSection])
    """What each tenant may use; ``*`` is for tenants without a section. The tenant ``default`` may use everything
    unless it has a section."""

    if TYPE_CHECKING:

        def __init__(self, **sections: Any) -> None: ...

    _tenant: str = PrivateAttr("")
    _shared_models: tuple[str, ...] = PrivateAttr(("*",))
    _shared_keys: tuple[str, ...] = PrivateAttr(("*",))
    _override_model: str = PrivateAttr("")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources in order: the environment overrides the file, whose contents are passed as arguments."""
        return env_settings, init_settings

    @field_validator("*")
    @classmethod
    def _check_sections(cls, value: Any) -> Any:
        sections = cast("dict[str, Any]", value) if isinstance(value, dict) else {"": value}
        for name, section in sections.items():
            if isinstance(section, Section):
                try:
                    section.check(name)
                except SettingsError as error:
                    raise ValueError(str(error)) from None
        return cast("Any", value)

    @property
    def shared(self) -> Mapping[str, Any]:
        """The sections of which tenants may get the whole or entries, by name."""
        return {
            name: value
            for name, value in self
            if name not in _UNSHARED and (isinstance(value, dict) or getattr(value, "shared", ""))
        }

    @property
    def tool_servers(self) -> Mapping[str, Any]:
        """The sections of MCP servers and of APIs; none without their integrations."""
        return {**getattr(self, "openapi", {}), **getattr(self, "mcp", {})}

    def section(self, kind: type[T]) -> T:
        """Return the section of an integration."""
        found = next((name for name, field in type(self).model_fields.items() if field.annotation == kind), None)
        if found is None:
            raise LookupError(f"No integration has declared the section {kind}.")
        return getattr(self, found)

    def restrict(self, tenant: str, models: tuple[str, ...], keys: tuple[str, ...]) -> None:
        """Leave a tenant only what the patterns match, also of providers from the environment and of datasets."""
        self._tenant, self._shared_models, self._shared_keys = tenant, models, keys

    def for_model(self, model: str) -> Settings:
        """Return a copy for runs in which ``model`` replaces every model in a canvas."""
        copy = self.model_copy()
        copy._override_model = model
        return copy

    @property
    def override_model(self) -> str:
        """The model that replaces every model in a canvas, or ``""``."""
        return self._override_model

    @property
    def shared_patterns(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The patterns of the models and of the keys that the tenant may use."""
        return self._shared_models, self._shared_keys

    @property
    def store_options(self) -> StoreOptions:
        """The options for opening the session store."""
        return {
            "prefix": self.checkpoint_prefix,
            "ttl_s": self.checkpoint_ttl_s,
            "durability": self.checkpoint_durability,
            "keys": to_keys(self.encryption_keys),
        }

    @property
    def tenant(self) -> str:
        """The tenant to which these settings are restricted, or ``""``."""
        return self._tenant

    @property
    def http_settings(self) -> HttpSettings:
        """The settings for the HTTP client."""
        http = self.http
        return HttpSettings(http.allow, http.timeout_s, http.max_response_bytes)

    @property
    def tool_settings(self) -> ToolSettings:
        """The settings for the tools."""
        keys = {name.lower(): section.api_key.read() for name, section in self.tools.items()}
        return ToolSettings(
            {name.lower(): section.endpoint for name, section in self.tools.items() if section.endpoint},
            {name: key for name, key in keys.items() if key},
            CrawlerRules(self.crawler.obey_robots),
        )

    @property
    def compatibility(self) -> Compatibility:
        """The behaviours of RAGFlow that apply to canvases that do not choose others."""
        return Compatibility().override(self.compat)

    @property
    def permits(self) -> ToolPermits:
        """Which tools agents are allowed to call."""
        return ToolPermits(self.agents.allow_tools, self.agents.deny_tools, self.agents.ask_tools)

    @property
    def secrets(self) -> tuple[str, ...]:
        """All keys and passwords, which are redacted from all output."""
        secrets = [provider.api_key for provider in _known_providers().values()]
        for _, value in self:
            parts: Iterable[Any] = cast("dict[str, Any]", value).values() if isinstance(value, dict) else [value]
            secrets += [secret for part in parts if isinstance(part, Section) for secret in part.secrets()]
        secrets += [self.server.metrics_key.get_secret_value()]
        secrets += [user.password.read() for user in self.server.users.values()]
        secrets += [section.key.read() for section in self.encryption_keys]
        urls = (self.server.database, self.server.journal, self.queue.url)
        for url in (self.checkpoints, *(each.get_secret_value() for each in urls)):
            secrets += find_passwords(url)
        return tuple(secret for secret in secrets if secret)

    @property
    def default_embedding(self) -> str:
        """The ID of the embedding model for new datasets, or ``""`` if the settings name none."""
        only = next(iter(self.embeddings)) if len(self.embeddings) == 1 else ""
        return getattr(getattr(self, "knowledge", None), "embedding_model", "") or only

    def embedding_settings(self) -> dict[str, EmbeddingSettings]:
        """Return the settings for the embedding models, by id."""
        return {id_: EmbeddingSettings(**section.endpoint(id_)) for id_, section in self.embeddings.items()}

    def known_embedding(self, id_: str) -> EmbeddingSettings | None:
        """Return the settings for the model of a known provider whose key is in the environment, or None."""
        known = provider_of_model(id_)
        if known is None or "embedding" not in known[1].abilities.split():
            return None
        if not find_key(known[1]) or not find_address(known[1]):
            return None
        return EmbeddingSettings(**EmbeddingSection().endpoint(id_))

    def known_reranker(self, id_: str) -> dict[str, Any] | None:
        """Return the fields of `RerankerSettings` for the model of such a provider, or None."""
        known = provider_of_model(id_)
        if known is None or "rerank" not in known[1].abilities.split() or not find_key(known[1]):
            return None
        if not known[1].rerank_url and not find_address(known[1]):
            return None
        return RerankerSection().endpoint(id_)

    def chat_settings(self, *, override_model: str = "") -> ChatModelSettings:
        """Return the settings for the chat models. ``override_model`` replaces every model in a canvas."""
        providers = [pattern.lower().rpartition("@")[2] for pattern in self._shared_models]
        known = {
            name: provider
            for name, provider in _known_providers().items()
            if any(fnmatchcase(name.lower(), pattern) for pattern in providers)
        }
        return ChatModelSettings(
            tenant=self._tenant,
            shared=self._shared_models,
            default_model=self.default_model
            or next((model for name, model in _DEFAULT_MODELS.items() if name in known), DEMO),
            override_model=override_model,
            providers={name: _provider(name, section) for name, section in self.providers.items()},
            known_providers=known,
            models={name: ModelSettings(**m.model_dump()) for name, m in self.models.items()},
        )


def _find_sections() -> dict[str, Any]:
    """Return the sections of the integrations, as fields of a model."""
    owners = find_integrations().integrations.values()
    return {name: field for owner in owners for name, field in owner.section_fields().items()}


if TYPE_CHECKING:
    Settings = CoreSettings
else:  # pickle finds it here
    Settings = create_model("Settings", __base__=CoreSettings, __module__=__name__, **_find_sections())


def _known_providers() -> dict[str, ProviderSettings]:
    """Return the providers that need no section, because the environment has their keys."""
    providers: dict[str, ProviderSettings] = {}
    for name, provider in PROVIDERS.items():
        if provider.family and (key := find_key(provider)) and (address := find_address(provider)):
            own = "" if address == provider.base_url else address
            providers[name] = ProviderSettings(own, key)
    return providers


def _provider(name: str, section: ProviderSection) -> ProviderSettings:
    key, base_url, found = section.api_key, section.base_url, find_provider(name)
    if found is not None and not (key or base_url):
        key = Secret(find_key(found[1]))
    if found is not None and not base_url and not found[1].base_url:
        base_url = find_address(found[1])
    fields = section.model_dump(exclude={"base_url", "api_key"})
    return ProviderSettings(base_url, key.read(), key_problem=key.problem(), **fields)
