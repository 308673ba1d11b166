"""From the ``llm_id`` of a canvas to a chat model.

``model@Provider`` and ``model@instance@Provider`` are RAGFlow's forms; the model's name may hold slashes, a suffix
``___OpenAI-API`` of RAGFlow's model list, and the provider one ``#tenant``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ragflow_lg.adapters.chat.demo_chat import DemoChat, ScriptLine
from ragflow_lg.adapters.chat.openai_chat import Capabilities, Endpoint, MakeChat, OpenAIChat
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.services.chat import ChatModel

__all__ = [
    "DEMO",
    "ChatModelSettings",
    "ConfiguredModels",
    "ModelName",
    "ModelSettings",
    "ProviderSettings",
    "parse_llm_id",
]

DEMO = "demo"
"""The ``llm_id``, or the provider, of the model that needs no key."""

KEY = "api_key_env, to the name of the variable that holds the key,"
"""What to set where a key is missing."""

ENDPOINTS: Mapping[str, str] = {
    "openai": "https://api.openai.com/v1",
    "deepseek": "https://api.deepseek.com/v1",
    "tongyi-qianwen": "https://dashscope.aliyuncs.com/compatible-mode/v1",
    "zhipu-ai": "https://open.bigmodel.cn/api/paas/v4",
    "siliconflow": "https://api.siliconflow.cn/v1",
    "moonshot": "https://api.moonshot.cn/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "mistral": "https://api.mistral.ai/v1",
    "groq": "https://api.groq.com/openai/v1",
    "xai": "https://api.x.ai/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta/openai",
    "ollama": "http://localhost:11434/v1",
}
"""OpenAI-compatible endpoints of providers by RAGFlow's name in lower case, where ``base_url`` is not set."""

DEFAULT_CONTEXT_TOKENS = 128_000
"""Context of a model of which none is set. RAGFlow knows its models' and takes 8192 for others."""

_WEB_ADDRESS = re.compile(r"https?://[\w.\-\[\]:]+(/\S*)?$", re.IGNORECASE)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class ModelName(NamedTuple):
    """An ``llm_id`` in parts; ``instance`` and ``provider`` may be ``""``."""

    model: str
    instance: str = ""
    provider: str = ""


def parse_llm_id(llm_id: str) -> ModelName:
    """Take an ``llm_id`` apart.

    >>> parse_llm_id("Qwen/Qwen3-8B@default@SILICONFLOW")
    ModelName(model='Qwen/Qwen3-8B', instance='default', provider='SILICONFLOW')
    >>> parse_llm_id("glm-4-flash___OpenAI-API@OpenAI-API-Compatible#admin")
    ModelName(model='glm-4-flash', instance='', provider='OpenAI-API-Compatible')
    """
    model, *rest = llm_id.strip().rsplit("@", 2)
    if not model and rest:  # a name that begins with @, as some hosts have it
        model, rest = f"@{rest[0]}", rest[1:]
    provider = rest[-1].partition("#")[0] if rest else ""
    return ModelName(model.partition("___")[0], rest[0] if len(rest) > 1 else "", provider)


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """One endpoint, OpenAI-compatible unless a client is named."""

    base_url: str = ""
    """``""`` for a known provider's own."""
    api_key: str = field(default="", repr=False)
    models: tuple[str, ...] = ()
    """Models found here when a canvas names them without a provider."""
    timeout_s: float = 600.0
    idle_timeout_s: float = 120.0
    max_retries: int = 2
    concurrency: int = 64
    counts_streams: bool = True
    client: str = ""
    """Name of an installed LangChain client, where the endpoint needs another than OpenAI's."""
    key_variable: str = ""
    """The environment variable that the key is taken from, if it is from one."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What is known of one model; None is the usual. Prices are for a million tokens, in any currency."""

    context_tokens: int | None = None
    has_vision: bool | None = None
    has_tools: bool | None = None
    has_schemas: bool | None = None
    input_price: float = 0.0
    output_price: float = 0.0


@dataclass(frozen=True, slots=True)
class ChatModelSettings:
    """All that is set about chat models.

    ``providers`` are found by the last part of an ``llm_id``, or by ``instance@Provider`` before that, ignoring case;
    ``models`` by the whole ``llm_id``, by ``model@Provider`` or by the model alone. ``override_model`` is
    asked in place of every other.
    """

    default_model: str = DEMO
    override_model: str = ""
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict[str, ProviderSettings])
    models: Mapping[str, ModelSettings] = field(default_factory=dict[str, ModelSettings])
    demo_script: tuple[ScriptLine, ...] = ()


class ConfiguredModels:
    """`ragflow_lg.services.services.ChatModels` by settings. It holds connections until it is closed."""

    def __init__(self, settings: ChatModelSettings) -> None:
        self._settings = settings
        self._providers = {name.lower(): (name, provider) for name, provider in settings.providers.items()}
        self._demo = DemoChat(settings.demo_script)
        self._endpoints: dict[str, Endpoint] = {}

    def model(self, llm_id: str) -> ChatModel:
        """Give the model of an ``llm_id``.

        Raises:
            SettingsError: if its provider, or the provider's address or key, is not set.
        """
        wanted = self._settings.override_model or llm_id.strip() or self._settings.default_model
        name = parse_llm_id(wanted)
        if DEMO in (wanted, name.provider.lower()):
            return self._demo
        provider_name, provider = self._provider(name, wanted)
        if provider_name not in self._endpoints:
            self._endpoints[provider_name] = _endpoint(wanted, provider_name, provider)
        plain_name = provider_name.rpartition("@")[2]
        known = (self._settings.models.get(key) for key in (wanted, f"{name.model}@{plain_name}", name.model))
        about = next((settings for settings in known if settings is not None), ModelSettings())
        capabilities = Capabilities(
            about.context_tokens or DEFAULT_CONTEXT_TOKENS,
            has_vision=about.has_vision is not False,
            has_tools=about.has_tools is not False,
            has_schemas=about.has_schemas is True,
            input_price=about.input_price,
            output_price=about.output_price,
        )
        if provider.client:
            from ragflow_lg.adapters.chat.langchain_chat import LangChainChat

            return LangChainChat(name.model, self._endpoints[provider_name], capabilities)
        return OpenAIChat(name.model, self._endpoints[provider_name], capabilities)

    async def aclose(self) -> None:
        """Close all connections."""
        for endpoint in self._endpoints.values():
            await endpoint.aclose()

    def _provider(self, name: ModelName, wanted: str) -> tuple[str, ProviderSettings]:
        if not name.provider:
            return self._provider_of_bare(name, wanted)
        for key in (f"{name.instance}@{name.provider}".lower(), name.provider.lower()):
            if key in self._providers:
                return self._providers[key]
        missing = KEY if name.provider.lower() in ENDPOINTS else f"base_url and {KEY}"
        raise _missing(wanted, f"there is no provider {name.provider!r}", f"{_section(name.provider)} {missing}")

    def _provider_of_bare(self, name: ModelName, wanted: str) -> tuple[str, ProviderSettings]:
        holders = [held for held in self._providers.values() if name.model in held[1].models]
        holders = holders or (list(self._providers.values()) if len(self._providers) == 1 else [])
        if not holders:
            raise _missing(wanted, "it names no provider", "models of the [providers.NAME] that has it")
        return holders[0]


def _endpoint(wanted: str, name: str, provider: ProviderSettings) -> Endpoint:
    if provider.client:
        from ragflow_lg.adapters.chat.langchain_chat import find_client

        return _opened(name, provider.base_url, provider, find_client(provider.client))
    base_url = provider.base_url or ENDPOINTS.get(name.rpartition("@")[2].lower(), "")
    section = _section(name)
    if not base_url:
        raise _missing(wanted, f"the provider {name!r} has no address", f"{section} base_url")
    if not _WEB_ADDRESS.match(base_url):
        raise _missing(wanted, f"{base_url!r} is no web address", f"{section} base_url")
    if not provider.api_key and base_url.lower().startswith("https:"):
        if provider.key_variable:
            why = f"the environment has no {provider.key_variable!r}, which {section} api_key_env names"
            raise _missing(wanted, why, "it to the key, or correct the name", where="")
        raise _missing(wanted, f"the provider {name!r} has no key", f"{section} {KEY}")
    return _opened(name, base_url, provider)


def _opened(name: str, base_url: str, provider: ProviderSettings, make_chat: MakeChat | None = None) -> Endpoint:
    return Endpoint(
        name,
        base_url,
        provider.api_key,
        timeout_s=provider.timeout_s,
        idle_timeout_s=provider.idle_timeout_s,
        max_retries=provider.max_retries,
        concurrency=provider.concurrency,
        counts_streams=provider.counts_streams,
        make_chat=make_chat,
    )


def _section(provider: str) -> str:
    return f"[providers.{provider}]" if _BARE_KEY.fullmatch(provider) else f'[providers."{provider}"]'


def _missing(wanted: str, why: str, setting: str, *, where: str = " in the settings file") -> SettingsError:
    return SettingsError(
        f"The model {wanted!r} cannot be used: {why}. Set {setting}{where}, "
        f"choose another model with --model, or try the canvas without one: --model {DEMO}."
    )
