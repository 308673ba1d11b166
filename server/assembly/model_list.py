"""The models that an editor can offer: those that the settings name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from ragflow_lg.adapters.chat.chat_settings import DEMO, ModelSettings
from ragflow_lg.adapters.chat.model_resolution import parse_llm_id
from ragflow_lg.adapters.known_providers import find_provider

if TYPE_CHECKING:
    from ragflow_lg.adapters.chat.chat_settings import ChatModelSettings
    from ragflow_lg.server.settings import Settings

ModelKind: TypeAlias = Literal["chat", "vision", "embedding", "rerank"]
DEFAULT_INSTANCE = "default"


class ListedModel(NamedTuple):
    """A model that canvases can use by its id."""

    id: str
    name: str
    provider: str
    instance: str
    kinds: tuple[ModelKind, ...]
    is_default: bool = False
    """Whether it is the default of its first kind."""
    context_tokens: int | None = None
    has_tools: bool = True


def list_models(settings: Settings) -> list[ListedModel]:
    """Return the models for chats, embeddings and reranking, without duplicates; default models come first."""
    models: dict[tuple[str, ModelKind], ListedModel] = {}
    for model in (*_list_chat_models(settings.chat_settings()), *_list_other_models(settings)):
        models.setdefault((model.id, model.kinds[0]), model)
    return list(models.values())


def find_family(name: str, chat: ChatModelSettings) -> str:
    """Return the family of a provider's API, ``openai`` if it is compatible with OpenAI's."""
    settings = chat.providers.get(name) or chat.known_providers.get(name)
    base_url, client = (settings.base_url, settings.client) if settings is not None else ("", "")
    found = find_provider(name)
    return client or (found[1].family_at(base_url) if found else "openai")


def _list_chat_models(chat: ChatModelSettings) -> Iterator[ListedModel]:
    owners = {model: name for name, provider in chat.providers.items() for model in provider.models}
    only = next(iter(chat.providers)) if len(chat.providers) == 1 else ""
    shared = {DEMO, *(name.lower().rpartition("@")[2] for name in (*chat.providers, *chat.known_providers))}
    ids = [chat.default_model, *chat.models, *owners, DEMO]
    for llm_id in dict.fromkeys(id_.strip() for id_ in ids if id_.strip()):
        name = parse_llm_id(llm_id)
        provider = name.provider or (DEMO if name.model == DEMO else owners.get(name.model, only))
        if chat.tenant and provider.lower() not in shared:
            continue
        full_id = llm_id if name.provider or not provider or llm_id == DEMO else f"{name.model}@{provider}"
        candidates = (chat.models.get(key) for key in (llm_id, full_id, name.model))
        known = next((each for each in candidates if each is not None), ModelSettings())
        has_vision = known.has_vision
        if has_vision is None:  # whether a model of your own server has vision, only `models test` can tell
            offer = find_provider(provider)
            has_vision = offer is not None and bool(offer[1].key) and "vision" in offer[1].abilities.split()
        yield ListedModel(
            full_id,
            name.model,
            provider,
            name.instance or DEFAULT_INSTANCE,
            ("chat", "vision") if has_vision else ("chat",),
            is_default=llm_id == chat.default_model,
            context_tokens=known.context_tokens,
            has_tools=known.has_tools is not False,
        )


def _list_other_models(settings: Settings) -> Iterator[ListedModel]:
    sections: tuple[tuple[ModelKind, list[str], str], ...] = (
        ("embedding", list(settings.embeddings), settings.default_embedding),
        ("rerank", list(settings.rerankers), ""),
    )
    for kind, ids, default in sections:
        for id_ in ids:
            name = parse_llm_id(id_)
            instance = name.instance or DEFAULT_INSTANCE
            yield ListedModel(id_, name.model, name.provider, instance, (kind,), is_default=id_ == default)
