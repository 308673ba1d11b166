"""Every provider of the table against a stub of its API, below the path of its usual address."""

from typing import Any
from urllib.parse import urlsplit

import pytest

from ragflow_lg.adapters.chat.chat_settings import ChatModelSettings, ProviderSettings
from ragflow_lg.adapters.chat.model_resolution import ConfiguredModels
from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.adapters.knowledge.embedders import ConfiguredEmbedders
from ragflow_lg.adapters.knowledge.rerankers import ConfiguredRerankers, RerankerSettings
from ragflow_lg.adapters.known_providers import PROVIDERS, KnownProvider
from ragflow_lg.adapters.model_endpoint import EmbeddingSettings
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.services.chat import ChatRequest, ToolSchema, Usage
from tests.fakes.model_wires.anthropic_wire import AnthropicWire
from tests.fakes.model_wires.bedrock_wire import BedrockWire
from tests.fakes.model_wires.google_wire import GoogleWire
from tests.fakes.model_wires.ollama_wire import OllamaWire
from tests.fakes.model_wires.openai_wire import AzureWire, OpenAIWire
from tests.fakes.model_wires.wire import Reply, Wire, serving_wire
from tests.harness.rows import each_row

pytestmark = pytest.mark.slow

KEY = "test-key-123"
WIRES: dict[str, Wire] = {
    "anthropic": AnthropicWire(),
    "azure": AzureWire(),
    "bedrock": BedrockWire(),
    "google": GoogleWire(),
    "ollama": OllamaWire(),
    "openai": OpenAIWire(),
}
USABLE = {name: provider for name, provider in PROVIDERS.items() if provider.family}
OWN_ADDRESSES = {name: provider for name, provider in USABLE.items() if provider.own_family}
EXCEPTIONS = {
    "Builtin", "FastEmbed", "Fish Audio", "MinerU", "Mistral OCR", "OpenDataLoader", "PaddleOCR", "Replicate", "SoMark",
    "Tencent Cloud",
}  # fmt: skip
"""Providers without an API for us; their `KnownProvider.note` says why."""
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
REQUEST = ChatRequest("Be kind.", ({"role": "user", "content": "Hi"},), tools=(ToolSchema("look_up", "Look.", SCHEMA),))


def with_ability(ability: str) -> list[str]:
    return [name for name, provider in USABLE.items() if ability in provider.abilities.split()]


def key_of(family: str) -> str:
    """Return the key; botocore sends keys only by HTTPS, so requests to Bedrock's stub are signed."""
    return "" if family == "bedrock" else KEY


def path_of(provider: KnownProvider) -> str:
    return urlsplit(provider.base_url).path


async def check_chat(name: str, family: str, path: str) -> None:
    replies = Reply(), Reply(), Reply((), calls=(("call_1", "look_up", {"city": "Bonn"}),))
    async with serving_wire(WIRES[family], *replies) as (stub, address):
        settings = ProviderSettings(f"{address}{path}", key_of(family), max_retries=0)
        models = ConfiguredModels(ChatModelSettings(providers={name: settings}))
        model = models.model(f"my-model@{name}")
        assert (await model.complete(REQUEST)).text == "Hello"
        deltas = [delta async for delta in model.stream(REQUEST)]
        assert "".join(delta.text for delta in deltas) == "Hello"
        assert deltas[-1].usage == Usage(7, 5, 1)
        assert [call.name for call in (await model.complete(REQUEST)).calls] == ["look_up"]
        await models.aclose()
        assert stub.problems == []


def test_the_exceptions_are_those_that_say_why() -> None:
    assert {name for name, provider in PROVIDERS.items() if not provider.family} == EXCEPTIONS


@each_row("name", sorted(EXCEPTIONS))
def test_an_exception_says_why(name: str) -> None:
    with pytest.raises(SettingsError, match=PROVIDERS[name].note.split(".")[0]):
        ConfiguredModels(ChatModelSettings()).model(f"m@{name}")


@each_row("name", with_ability("chat"))
async def test_chat_models_answer(name: str) -> None:
    await check_chat(name, USABLE[name].family, path_of(USABLE[name]))


@pytest.mark.parametrize("name", OWN_ADDRESSES)
async def test_addresses_of_another_family_are_recognised(name: str) -> None:
    await check_chat(name, OWN_ADDRESSES[name].own_family, "")


@each_row("name", with_ability("embedding"))
async def test_embedding_models_answer(name: str) -> None:
    provider = USABLE[name]
    async with serving_wire(WIRES[provider.family]) as (stub, address):
        settings = EmbeddingSettings(
            f"{address}{path_of(provider)}",
            "amazon.titan-embed-text-v2:0" if name == "Bedrock" else "my-model",
            key_of(provider.family),
            family="" if provider.family == "openai" else provider.family,
            max_retries=0,
        )
        embedders = ConfiguredEmbedders({f"m@{name}": settings})
        embedder = embedders.embedder(f"m@{name}")
        assert await embedder.embed_question("abc") == [3.0, 1.0]
        assert await embedder.embed_chunks(["a", "bb"]) == [[1.0, 1.0], [2.0, 1.0]]
        await embedders.aclose()
        assert stub.problems == []


# The wires of NVIDIA's and Bedrock's own are in knowledge/test_rerank_wires.py.
@each_row("name", [name for name in with_ability("rerank") if name not in ("NVIDIA", "Bedrock")])
async def test_rerank_models_answer(name: str) -> None:
    provider = USABLE[name]
    async with serving_wire(WIRES["openai"]) as (stub, address):
        path = urlsplit(provider.rerank_url).path if provider.rerank_url else path_of(provider)
        style = provider.rerank_style
        options: dict[str, Any] = {"api_key": KEY, "model": "my-model", "max_retries": 0, "style": style}
        http = GuardedHttpClient(HttpSettings(allow=("127.0.0.1",)))
        rerankers = ConfiguredRerankers({"m": RerankerSettings(f"{address}{path}", **options)}, http)
        assert await rerankers.reranker(f"m@{name}").scores("q", ["a", "bbb"]) == [0.1, 0.3]
        await http.aclose()
        assert stub.problems == []
        last = stub.received[-1].path
    assert last.endswith("/text-rerank/text-rerank" if style == "dashscope" else "/rerank")
