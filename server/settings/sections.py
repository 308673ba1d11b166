"""Sections for what canvases use: models, tool services and web addresses."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from ragflow_lg.adapters.known_providers import KnownProvider, RerankStyle, provider_of_model
from ragflow_lg.adapters.model_endpoint import endpoint_host
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.settings.provider_variables import find_address
from ragflow_lg.server.settings.secret import Secret


class Section(BaseModel):
    """Refuses unknown settings. Its errors do not contain values."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, defer_build=True)

    shared: ClassVar[str] = ""
    """The field whose entries tenants may get as ``SECTION.NAME``; ``*`` if they may get the whole as ``SECTION``, and
    ``""`` if all of them have it."""

    def secrets(self) -> Iterable[str]:
        """Return all keys and passwords as plain text."""
        return ()

    def check(self, name: str) -> None:
        """Raise SettingsError if what is set cannot work, so that no process starts with it. A table has the name."""


class KeySection(Section):
    """A section with an API key."""

    api_key: Secret = Secret()
    """``"KEY"``, ``{ env = "VARIABLE" }`` or ``{ file = "PATH" }``."""

    def secrets(self) -> Iterable[str]:
        """Return the key."""
        return (self.api_key.read(),)


class AccountSection(Section):
    """A section with a password."""

    password: Secret = Secret()
    """``"TEXT"``, ``{ env = "VARIABLE" }`` or ``{ file = "PATH" }``."""


def web_address(value: str) -> str:
    """Return an address without surrounding spaces.

    Raises:
        ValueError: If it does not begin with ``http://`` or ``https://``, or has no host or no valid port.
    """
    text = value.strip()
    if not text.lower().startswith(("http://", "https://")):
        raise ValueError("should be a web address that begins with http:// or https://")
    with suppress(ValueError):
        parts = urlsplit(text)
        if parts.hostname and parts.port != 0:
            return text
    raise ValueError("should have a host, and a port between 1 and 65535 if it has one")


class ProviderSection(KeySection):
    """``[providers.NAME]``: an endpoint. NAME is the part after ``@`` in an ``llm_id``."""

    base_url: str = ""
    """Required unless provider NAME has a known address."""
    client: str = ""
    """Its API: ``anthropic``, ``azure``, ``bedrock``, ``google`` or ``ollama``, or an installed LangChain chat model,
    given by its entry point name in the group ``ragflow_lg.chat_models``. Default: the API of the known provider NAME,
    otherwise OpenAI's."""
    models: tuple[str, ...] = ()
    """This provider's models that canvases refer to without a provider."""
    timeout_s: Annotated[float, Field(gt=0)] = 600.0
    max_retries: Annotated[int, Field(ge=0, le=20)] = 2
    """How often a temporarily refused call (429, 5xx) is retried, as long as no output has been shown."""
    concurrency: Annotated[int, Field(gt=0)] = 64
    """Maximum number of concurrent calls."""
    counts_streams: bool = True
    """Whether to request usage data for streamed answers; false for servers that refuse ``stream_options``."""


class ModelSection(Section):
    """``[models."MODEL"]``: one model's properties. MODEL is its name, with or without its provider."""

    context_tokens: Annotated[int, Field(gt=0)] | None = None
    """Its window. Default: what the server tells, else 128,000."""
    has_vision: bool | None = None
    """Whether it gets images. Default, as for tools: what the server tells, else true."""
    has_tools: bool | None = None
    """Whether it supports tool calls. If false, an Agent describes its tools in the prompt."""
    has_schemas: bool | None = None
    """Whether it supports answers that follow a JSON schema."""
    sends_max_tokens: bool = False
    """Whether it gets the ``max_tokens`` of a canvas, which RAGFlow removes."""
    use: str = ""
    """Another model that answers in its place, as in a canvas."""
    input_price: Annotated[float, Field(ge=0)] = 0.0
    """Per million tokens, in any currency."""
    output_price: Annotated[float, Field(ge=0)] = 0.0


class EndpointSection(KeySection):
    """A model at an endpoint, by its id. Known providers, which follow the ``@`` in it, need no ``base_url``."""

    base_url: str = ""
    model: str = ""
    """The model's name at the endpoint. Default: ID without the last ``@`` and everything after it."""

    @field_validator("base_url")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return web_address(value) if value else value

    def address(self, id_: str) -> str:
        """Return the address of the endpoint.

        Raises:
            SettingsError: if neither the section nor the id names it.
        """
        known = provider_of_model(id_)
        if base_url := self.base_url or (self._known_address(known[1]) if known else ""):
            return base_url
        raise SettingsError(f"The section of the model {id_!r} has no base_url. Set it to the address of the endpoint.")

    def endpoint(self, id_: str) -> dict[str, Any]:
        """Return the fields of `EndpointSettings`, whose names are those of this section, and of its subclass.

        Raises:
            SettingsError: if there is no address.
        """
        fields = self.model_dump(exclude={"api_key", "model", "base_url"})
        model = self.model or id_.rpartition("@")[0] or id_
        key, known = self.api_key, provider_of_model(id_)
        if known and not (self.base_url or key):  # it is sent to nobody else
            key = Secret(env=known[1].key)
        fields |= {"api_key": key.read(), "key_problem": key.problem()}
        return {**fields, "base_url": self.address(id_), "model": model}

    def check(self, name: str) -> None:
        """Raise SettingsError if there is no address."""
        endpoint_host(self.address(name))

    @staticmethod
    def _known_address(provider: KnownProvider) -> str:
        return find_address(provider)


class EmbeddingSection(EndpointSection):
    """``[embeddings."ID"]``: an embedding model, by the id that datasets use."""

    client: Literal["", "azure", "bedrock", "google", "ollama"] = ""
    """Its API. Default: the API of the known provider in ID, otherwise OpenAI's."""

    batch: Annotated[int, Field(gt=0, le=2048)] = 64
    """Maximum number of texts per request."""

    def endpoint(self, id_: str) -> dict[str, Any]:
        """Return the fields of `EmbeddingSettings`.

        Raises:
            SettingsError: if there is no address.
        """
        fields = super().endpoint(id_)
        known, client = provider_of_model(id_), fields.pop("client")
        family = client or (known[1].family_at(self.base_url) if known else "")
        return {**fields, "family": "" if family == "openai" else family}


class RerankerSection(EndpointSection):
    """``[rerankers."ID"]``: a rerank model, by the ``rerank_id`` that canvases use.

    ``/rerank`` is appended to ``base_url``, or the path of the style: ``/text-rerank`` in ``dashscope``, ``/ranking``
    in ``nvidia``, ``/model/MODEL/invoke`` in ``bedrock``.
    """

    style: RerankStyle | Literal[""] = ""
    """Default: the style of the known provider in ID at its own address, otherwise ``jina``."""

    def endpoint(self, id_: str) -> dict[str, Any]:
        """Return the fields of `RerankerSettings`.

        Raises:
            SettingsError: if there is no address.
        """
        known = None if self.base_url else provider_of_model(id_)
        return {**super().endpoint(id_), "style": self.style or (known[1].rerank_style if known else "jina")}

    @staticmethod
    def _known_address(provider: KnownProvider) -> str:
        return provider.rerank_url or find_address(provider)


class ToolSection(KeySection):
    """``[tools.NAME]``: a service that tools call, such as ``tavily``. NAME is case-insensitive."""

    endpoint: str = ""
    """The service's address, if it is not the default."""

    @field_validator("endpoint")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return web_address(value) if value.strip() else ""


class HttpSection(Section):
    """``[http]``: limits for every request that a canvas makes."""

    allow: tuple[str, ...] = ()
    """Non-public addresses that canvases can reach; see `ragflow_lg.adapters.http.address_guard`."""
    timeout_s: Annotated[float, Field(gt=0)] = 600.0
    max_response_bytes: Annotated[int, Field(gt=0)] = 16 * 1024 * 1024


class CrawlerSection(Section):
    """``[crawler]``: how the tool Crawler reads web pages."""

    obey_robots: bool = True
    """Whether pages that a site's ``robots.txt`` excludes are left alone."""


class AgentsSection(Section):
    """``[agents]``: rules for agents' tools. For tool names, see `ragflow_lg.services.tool_policies`."""

    allow_tools: tuple[str, ...] | None = None
    """Names and patterns of tools that may be called. Default: all."""
    deny_tools: tuple[str, ...] = ()
    """Names and patterns of tools that may not be called, even if allowed."""
    ask_tools: tuple[str, ...] = ()
    """Names and patterns of tools that are called only after the user has approved the call."""
    visitors_approve: bool = False
    """Whether visitors of embedded pages also see and approve such calls."""
    cache_tools: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict[str, float])
    """How long results are cached, in seconds, by tool name or pattern. Cache only results that depend on nothing but
    parameters and arguments."""
    guards: tuple[str, ...] = ()
    """Entry points in the group ``ragflow_lg.tool_guards`` that check every call, in order."""
