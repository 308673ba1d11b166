from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from ragflow_lg.adapters.chat.chat_settings import ChatModelSettings, ModelSettings, ProviderSettings
from ragflow_lg.adapters.chat.model_resolution import ConfiguredModels
from ragflow_lg.services.chat import ChatDelta, ChatModel, ChatRequest, ToolSchema
from tests.fakes.model_wires.anthropic_wire import AnthropicWire
from tests.fakes.model_wires.bedrock_wire import BedrockWire
from tests.fakes.model_wires.google_wire import GoogleWire
from tests.fakes.model_wires.ollama_wire import OllamaWire
from tests.fakes.model_wires.openai_wire import AzureWire
from tests.fakes.model_wires.wire import Fault, Reply, Wire, WireStub, serving_wire

KEY = "test-key-123"


class Case(NamedTuple):
    client: str
    wire: Wire
    model: str


CASES = {
    "anthropic": Case("anthropic", AnthropicWire(), "claude-sonnet-4-6"),
    "azure": Case("azure", AzureWire(), "gpt-4.1"),
    "bedrock": Case("bedrock", BedrockWire(), "anthropic.claude-3-7-sonnet-20250219-v1:0"),
    "google": Case("google", GoogleWire(), "gemini-2.5-flash"),
    "ollama": Case("ollama", OllamaWire(), "qwen3:8b"),
}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL = ToolSchema("look_up", "Look something up.", SCHEMA)
HELLO = ChatRequest("Be kind.", ({"role": "user", "content": "Hi"},))


def key_of(case: Case) -> str:
    """Return the key; botocore sends keys only by HTTPS, so requests to Bedrock's stub are signed."""
    return "" if case.client == "bedrock" else KEY


@asynccontextmanager
async def model_of(
    case: Case, *replies: Reply, faults: Sequence[Fault] = (), model: str = "", **settings: Any
) -> AsyncGenerator[tuple[WireStub, ChatModel]]:
    async with serving_wire(case.wire, *replies, faults=faults) as (stub, address):
        options: dict[str, Any] = {"max_retries": 0, "timeout_s": 20.0, **settings}
        provider = ProviderSettings(address, key_of(case), client=case.client, **options)
        limited = {model or case.model: ModelSettings(sends_max_tokens=True)}
        models = ConfiguredModels(ChatModelSettings(providers={"Zoo": provider}, models=limited))
        try:
            yield stub, models.model(f"{model or case.model}@Zoo")
        finally:
            await models.aclose()
        assert stub.problems == []


async def read(model: ChatModel, request: ChatRequest = HELLO) -> tuple[str, str, ChatDelta]:
    """Return the text, the thinking and the last delta of a streamed answer."""
    deltas = [delta async for delta in model.stream(request)]
    text = "".join(delta.text for delta in deltas if not delta.is_thinking)
    return text, "".join(delta.text for delta in deltas if delta.is_thinking), deltas[-1]
