"""Resolution of a canvas's ``llm_id`` to a chat model.

RAGFlow writes ``model@Provider`` or ``model@instance@Provider``. The model name may contain slashes and RAGFlow's
suffix ``___OpenAI-API``; the provider name may end with ``#tenant``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import NamedTuple

from ragflow_lg.adapters.chat.chat_settings import DEMO, ChatModelSettings, ModelSettings, ProviderSettings, is_demo
from ragflow_lg.adapters.chat.demo_chat import DemoChat
from ragflow_lg.adapters.chat.openai_chat import Endpoint, MakeChat, OpenAIChat
from ragflow_lg.adapters.known_providers import PROVIDERS, find_provider, provider_of_model
from ragflow_lg.adapters.model_families.families import FAMILIES, open_family
from ragflow_lg.adapters.model_families.model_family import FamilyEndpoint, ModelFamily
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.services.chat import ChatModel

_KEY_SETTING = 'api_key, or api_key = { env = "VARIABLE" },'

_HTTP_URL = re.compile(r"https?://[\w.\-\[\]:]+(/\S*)?$", re.IGNORECASE)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


class ModelName(NamedTuple):
    """The parts of an ``llm_id``; ``instance`` and ``provider`` may be ``""``."""

    model: str
    instance: str = ""
    provider: str = ""


def parse_llm_id(llm_id: str) -> ModelName:
    """Split an ``llm_id`` into its parts.

    >>> parse_llm_id("Qwen/Qwen3-8B@default@SILICONFLOW")
    ModelName(model='Qwen/Qwen3-8B', instance='default', provider='SILICONFLOW')
    >>> parse_llm_id("glm-4-flash___OpenAI-API@OpenAI-API-Compatible#admin")
    ModelName(model='glm-4-flash', instance='', provider='OpenAI-API-Compatible')
    """
    model, *rest = llm_id.strip().rsplit("@", 2)
    if not model and rest:  # some hosts use names that begin with @
        model, rest = f"@{rest[0]}", rest[1:]
    provider = rest[-1].partition("#")[0] if rest else ""
    return ModelName(model.partition("___")[0], rest[0] if len(rest) > 1 else "", provider)


class ConfiguredModels:
    """A `ragflow_lg.services.chat.ChatModels` with models from settings. Close it to close its connections."""

    def __init__(
        self, settings: ChatModelSettings, endpoints: dict[str, Endpoint] | None = None, *, title: str = ""
    ) -> None:
        """Initialize. ``endpoints`` are shared with other models, by provider. The demo model names the ``title``."""
        self._settings = settings
        self._providers = _by_name(settings.providers)
        self._all_providers = {**_by_name(settings.known_providers), **self._providers}
        self._demo = DemoChat(title, calls_tools=is_demo(settings.override_model))
        self._endpoints: dict[str, Endpoint] = {} if endpoints is None else endpoints

    def restrict(self, settings: ChatModelSettings) -> ConfiguredModels:
        """Return some of these models. They share connections and limits; closing these models closes both."""
        return ConfiguredModels(settings, self._endpoints)

    def for_node(self, title: str) -> ConfiguredModels:
        """Return the same models for a node with a title, which the demo model names."""
        return ConfiguredModels(self._settings, self._endpoints, title=title)

    def model(self, llm_id: str) -> ChatModel:
        """Return the model for an ``llm_id``; ``""`` means the default model.

        Raises:
            SettingsError: if the provider, its address or its key is not configured.
        """
        llm_id = self._settings.override_model or self._used(llm_id.strip() or self._settings.default_model)
        name = parse_llm_id(llm_id)
        if is_demo(llm_id):
            return self._demo
        provider_name, provider = self._provider(name, llm_id)
        if provider_name not in self._endpoints:
            self._endpoints[provider_name] = _endpoint(llm_id, provider_name, provider)
        plain_name = provider_name.rpartition("@")[2]
        candidates = (self._settings.models.get(key) for key in (llm_id, f"{name.model}@{plain_name}", name.model))
        model = next((settings for settings in candidates if settings is not None), ModelSettings())
        return _chat_class(self._endpoints[provider_name])(name.model, self._endpoints[provider_name], model)

    def _used(self, llm_id: str) -> str:
        """Return the model that answers in place of another one, or the same. It is not replaced again."""
        name = parse_llm_id(llm_id)
        keys = (llm_id, f"{name.model}@{name.provider}", name.model)
        return next((model.use for key in keys if (model := self._settings.models.get(key)) and model.use), llm_id)

    async def aclose(self) -> None:
        """Close all connections."""
        for endpoint in self._endpoints.values():
            await endpoint.aclose()

    def _provider(self, name: ModelName, llm_id: str) -> tuple[str, ProviderSettings]:
        if not name.provider:
            return self._provider_of_model(name, llm_id)
        for key in (f"{name.instance}@{name.provider}".lower(), name.provider.lower()):
            if key in self._all_providers and self._is_shared(name.model, key):
                return self._all_providers[key]
        if tenant := self._settings.tenant:
            raise _unshared(llm_id, f"no provider {name.provider!r} of it", tenant)
        raise self._missing_provider(name, llm_id)

    def _is_shared(self, model: str, provider: str) -> bool:
        plain_name = provider.rpartition("@")[2]
        names = {each.lower() for each in (provider, plain_name, f"{model}@{plain_name}")}
        return any(fnmatchcase(each, pattern.lower()) for each in names for pattern in self._settings.shared)

    def _missing_provider(self, name: ModelName, llm_id: str) -> SettingsError:
        """Return the error for a provider without settings and without a key in the environment."""
        why, found = f"there is no provider {name.provider!r}", find_provider(name.provider)
        if found is None:
            names = [DEMO, *PROVIDERS, *(name for name, _ in self._all_providers.values())]
            if near := _nearest(name.provider, names, cutoff=0.8):
                return SettingsError(f"The model {llm_id!r} cannot be used: {why}. Did you mean {near!r}?")
            return _unusable(llm_id, why, f"{_section(name.provider)} base_url and {_KEY_SETTING}")
        section, known, why = _section(name.provider), found[1], f"no key for {name.provider!r} was found"
        if not known.family:
            return SettingsError(
                f"The model {llm_id!r} cannot be used. {known.note} Choose another model with --model, or try the "
                f"canvas without a model: --model {DEMO}."
            )
        if not known.base_url:
            has_variable = known.family in FAMILIES
            variables = f"{known.key} and {known.required_variable} in the environment, or " if has_variable else ""
            return _unusable(llm_id, why, f"{variables}{section} base_url and {_KEY_SETTING}")
        if not known.key:
            why = f"the address of {name.provider!r} is not known"
            return _unusable(llm_id, why, f"{section} base_url, which is usually {known.base_url},")
        return _unusable(llm_id, why, f"{known.key} in the environment, or {section} {_KEY_SETTING}")

    def _provider_of_model(self, name: ModelName, llm_id: str) -> tuple[str, ProviderSettings]:
        """Return the provider that lists the model, or the only provider."""
        providers = self._providers or self._all_providers
        others = {key: provider for key, provider in providers.items() if self._is_shared(name.model, key)}
        matches = [provider for provider in others.values() if name.model in provider[1].models]
        matches = matches or (list(others.values()) if len(others) == 1 else [])
        if not matches and self._settings.tenant:
            raise _unshared(llm_id, "no provider of it", self._settings.tenant)
        if not matches:
            names = (DEMO, *(model for _, provider in others.values() for model in provider.models))
            if near := _nearest(llm_id, names):
                raise SettingsError(
                    f"The model {llm_id!r} cannot be used: it names no provider. Did you mean {near!r}?"
                )
            why = f"it names no provider, as {llm_id[:80] + '@OpenAI'!r} does"
            raise _unusable(llm_id, why, "`models` of the [providers.NAME] that serves it")
        return matches[0]


def _by_name(providers: Mapping[str, ProviderSettings]) -> dict[str, tuple[str, ProviderSettings]]:
    return {name.lower(): (name, provider) for name, provider in providers.items()}


def _nearest(name: str, names: Iterable[str], cutoff: float = 0.7) -> str:
    """Return the most similar name, ignoring case, or ``""``. Later names replace earlier ones in another case.

    The first word of a name stands for it as well: ``Tongyi`` for ``Tongyi-Qianwen``.
    """
    known = list(names)
    by_lower_case = {each.lower().partition("-")[0]: each for each in reversed(known)}
    by_lower_case |= {each.lower(): each for each in known}
    near = get_close_matches(name.lower()[:100], by_lower_case, n=1, cutoff=cutoff)
    return by_lower_case[near[0]] if near else ""


def _chat_class(endpoint: Endpoint) -> type[OpenAIChat]:
    if endpoint.is_openai_compatible:
        return OpenAIChat
    from ragflow_lg.adapters.chat.langchain_chat import FamilyChat, LangChainChat

    return LangChainChat if endpoint.family is None else FamilyChat


def _endpoint(llm_id: str, name: str, provider: ProviderSettings) -> Endpoint:
    known, section = provider_of_model(f"@{name}"), _section(name)
    family = provider.client or (known[1].family_at(provider.base_url) if known else "openai")
    if provider.client and (make_chat := _installed_client(provider.client)):
        return Endpoint(name, provider, make_chat)
    base_url = provider.base_url or (known[1].base_url if known else "")
    if not base_url:
        raise _unusable(llm_id, f"the provider {name!r} has no address", f"{section} base_url")
    if not _HTTP_URL.match(base_url):
        raise _unusable(llm_id, f"{base_url!r} is not an HTTP or HTTPS URL", f"{section} base_url")
    if not provider.api_key.isascii():  # a header would not take it
        raise _unusable(
            llm_id, f"the key of {name!r} has a character that no key has", f"the whole key, {section} api_key"
        )
    needs_key = family not in FAMILIES or FAMILIES[family].needs_key
    if not provider.api_key and base_url.lower().startswith("https:") and needs_key:
        if provider.key_problem:
            raise _unusable(llm_id, provider.key_problem, f"the key there, correct {section} api_key", verb="Put")
        raise _unusable(llm_id, f"the provider {name!r} has no key", f"{section} {_KEY_SETTING}")
    opened: ModelFamily | None = None
    if family in FAMILIES:
        opened = open_family(family, FamilyEndpoint(base_url, provider.api_key, provider.timeout_s))
    return Endpoint(name, replace(provider, base_url=base_url), family=opened)


def _installed_client(name: str) -> MakeChat | None:
    """Return the factory of an installed client, or None for a family without one of its name."""
    from ragflow_lg.adapters.chat.langchain_chat import load_client, named_client

    return None if name in FAMILIES and named_client(name) is None else load_client(name)


def _section(provider: str) -> str:
    return f"[providers.{provider}]" if _BARE_KEY.fullmatch(provider) else f'[providers."{provider}"]'


def _unshared(llm_id: str, what: str, tenant: str) -> SettingsError:
    return SettingsError(
        f"The model {llm_id!r} cannot be used: the tenant {tenant!r} has {what}. "
        f'Models are shared by provider or id in models of [tenants."{tenant}"].'
    )


def _unusable(llm_id: str, why: str, setting: str, *, verb: str = "Set") -> SettingsError:
    return SettingsError(
        f"The model {llm_id!r} cannot be used: {why}. {verb} {setting} in the settings file, "
        f"choose another model with --model of run or serve, or try the canvas without a model: --model {DEMO}."
    )
