"""Rerank models against stubs that check requests as the services do: NVIDIA and Amazon Bedrock."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.adapters.knowledge.rerankers import EndpointReranker, RerankerSettings, normalize_scores
from ragflow_lg.base.errors import ServiceError, SettingsError
from tests.fakes.model_wires.bedrock_wire import BedrockWire
from tests.fakes.model_wires.nvidia_wire import KEY, NvidiaWire
from tests.fakes.model_wires.wire import Fault, Wire, WireStub, serving_wire
from tests.harness.rows import each_row

TEXTS = ["a kettle", "a copper kettle of Oslo", ""]
NIM, CATALOGUE = "/v1/ranking", "/v1/retrieval/nvidia/llama-3_2-nv-rerankqa-1b-v2/reranking"
COHERE, AMAZON = "cohere.rerank-v3-5:0", "amazon.rerank-v1:0"


@asynccontextmanager
async def reranker_of(
    wire: Wire, path: str = "", *, faults: Sequence[Fault] = (), **settings: Any
) -> AsyncGenerator[tuple[WireStub, EndpointReranker]]:
    http = GuardedHttpClient(HttpSettings(allow=("127.0.0.1",)))
    async with serving_wire(wire, faults=faults) as (stub, address):
        options: dict[str, Any] = {"max_retries": 0, **settings}
        yield stub, EndpointReranker("m", RerankerSettings(address + path, **options), http)
        await http.aclose()
        assert stub.problems == []


@each_row(
    ("base", "model", "path"),
    [
        ("/v1", "nvidia/llama-nemotron-rerank-vl-1b-v2", NIM),
        ("/v1/retrieval", "nvidia/llama-3.2-nv-rerankqa-1b-v2", CATALOGUE),
        ("/v1/retrieval/", "llama-3.2-nv-rerankqa-1b-v2", CATALOGUE),
        ("/v1/retrieval", "nvidia/rerank-qa-mistral-4b", "/v1/retrieval/nvidia/reranking"),
    ],
)
async def test_nvidia_ranks_texts(base: str, model: str, path: str) -> None:
    async with reranker_of(NvidiaWire(path), base, model=model, style="nvidia", api_key=KEY) as (stub, reranker):
        scores = await reranker.scores("Which kettle?", TEXTS)
    assert scores == [-2.0, 13.0, -9.0]  # logits, in the order of the texts
    assert normalize_scores(scores)[1] == 1.0
    assert stub.received[0].json["model"] == model


async def test_bedrock_ranks_texts_and_its_requests_are_signed_or_have_a_key() -> None:
    for model, key in ((COHERE, ""), (AMAZON, ""), (COHERE, KEY)):
        async with reranker_of(BedrockWire(), model=model, style="bedrock", api_key=key) as (stub, reranker):
            assert await reranker.scores("Which kettle?", TEXTS) == [0.08, 0.23, 0.01]
        assert stub.received[0].path == f"/model/{model}/invoke"
        sent = stub.received[0].headers["authorization"]
        assert sent == f"Bearer {KEY}" if key else "/us-east-1/bedrock/aws4_request" in sent


async def test_a_refusal_shows_no_token_of_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token-of-aws")
    faults = [Fault(429), Fault(400)]
    async with reranker_of(BedrockWire(), model=COHERE, style="bedrock", faults=faults) as (stub, reranker):
        stub.reason = "The token token-of-aws is used up"
        with pytest.raises(ServiceError, match=r"429.*The token \*\*\* is") as caught:
            await reranker.scores("q", TEXTS)
        assert caught.value.is_retryable
        with pytest.raises(ServiceError, match="400"):
            await reranker.scores("q", TEXTS)


async def test_bedrock_without_credentials_names_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", "/nowhere")
    async with reranker_of(BedrockWire(), model=COHERE, style="bedrock") as (stub, reranker):
        with pytest.raises(SettingsError, match="AWS_BEARER_TOKEN_BEDROCK"):
            await reranker.scores("q", TEXTS)
    assert stub.received == []
