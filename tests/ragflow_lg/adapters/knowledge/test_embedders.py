import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ragflow_lg.adapters.knowledge import embedders
from ragflow_lg.adapters.knowledge.embedders import KEYWORDS, LOCAL_MODEL, ConfiguredEmbedders, EndpointEmbedder
from ragflow_lg.adapters.model_endpoint import EmbeddingSettings
from ragflow_lg.base.errors import ServiceError, SettingsError
from tests.fakes.http_server import HttpServer, Route
from tests.harness.rows import each_row

ENDPOINT = {name: EmbeddingSettings("https://models.example/v1", name) for name in ("bge", "m3@Silicon")}


def answer(*vectors: Sequence[float]) -> str:
    return json.dumps({"data": [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)][::-1]})


async def embed(server: HttpServer, texts: Sequence[str], **options: Any) -> Any:
    fields: dict[str, Any] = {"model": "bge", "api_key": "s3cret", "dims": 2, "batch": 2, "max_retries": 1, **options}
    embedder = EndpointEmbedder("e", EmbeddingSettings(f"http://127.0.0.1:{server.port}/v1/", **fields))
    try:
        return await embedder.embed_chunks(texts) if len(texts) > 1 else [await embedder.embed_question(texts[0])]
    finally:
        await embedder.aclose()


async def test_texts_are_sent_in_batches_and_vectors_returned_in_order() -> None:
    async with HttpServer([Route("/v1/embeddings", "POST", body=answer([1, 1], [2, 1]))]).running() as server:
        assert await embed(server, ["a", "bb", "c", " "]) == [[1, 1], [2, 1]] * 2
        first, second = server.received
        body = {"model": "bge", "input": ["a", "bb"], "encoding_format": "float"}
        assert (json.loads(first.body), first.header("authorization")) == (body, "Bearer s3cret")
        assert json.loads(second.body)["input"] == ["c", "None"]


async def test_after_a_time_out_all_requests_are_smaller() -> None:
    slow = Route("/v1/embeddings", "POST", delay_ms=60_000)
    async with HttpServer([slow]).running() as server:

        def settle(answers: str) -> None:
            server.routes[:] = [Route("/v1/embeddings", "POST", body=answers)]

        asyncio.get_running_loop().call_later(0.5, settle, answer([1, 1], [2, 1]))
        assert await embed(server, [*"abcd"], batch=4, timeout_s=1, max_retries=0) == [[1, 1], [2, 1]] * 2
        assert [len(json.loads(each.body)["input"]) for each in server.received] == [4, 2, 2]


async def test_a_long_question_is_truncated() -> None:
    async with HttpServer([Route("/v1/embeddings", "POST", body=answer([1, 1]))]).running() as server:
        assert await embed(server, ["x" * 100_000]) == [[1, 1]]
        assert len(json.loads(server.received[0].body)["input"][0]) == 6000


@each_row(
    ("route", "problem", "requests"),
    [
        (Route("/v1/embeddings", status=401, body='{"message": "wrong key s3cret"}'), r"401: .*wrong key \*\*\*", 1),
        (Route("/v1/embeddings", body="<html>"), "could not parse|failed", 1),
        (Route("/v1/embeddings", body='{"data": [{"embedding": "x"}]}'), "could not parse|failed", 1),
        (Route("/v1/embeddings", body='{"data": []}'), "could not parse", 1),
        (Route("/v1/embeddings", body=answer([1, 2, 3])), "a vector of 3 numbers instead of 2", 1),
        (Route("/v1/embeddings", body='{"data": [{"embedding": [1, NaN]}]}'), "invalid numbers", 1),
        (Route("/v1/embeddings", body=answer([1, 1e300])), "invalid numbers", 1),
        (Route("/v1/embeddings", body="[" * 20 * 1024 * 1024), "larger than|exceeds|more than", 1),
        (Route("/v1/embeddings", status=503), "answered 503", 2),
        (Route("/v1/embeddings", status=429, headers={"Retry-After": "90"}), "answered 429", 1),
        (Route("/v1/embeddings", delay_ms=900), "did not answer within 0.3 s, even to one text, whatever batch is", 2),
    ],
)
async def test_failures_name_the_setting_but_not_the_key(route: Route, problem: str, requests: int) -> None:
    async with HttpServer([route]).running() as server:
        with pytest.raises(ServiceError, match=problem) as raised:
            await embed(server, ["q"], timeout_s=0.3 if route.delay_ms else 30)
        assert '[embeddings."e"]' in str(raised.value)
        assert "s3cret" not in str(raised.value)
        assert len(server.received) == requests


async def test_a_missing_key_or_model_names_what_to_set() -> None:
    settings = EmbeddingSettings("https://models.example/v1", "bge", key_problem="no BGE_KEY")
    with pytest.raises(SettingsError, match=r"cannot be used: no BGE_KEY"):
        await EndpointEmbedder("e", settings).embed_question("q")
    with pytest.raises(SettingsError, match="no embedding models"):
        EndpointEmbedder("e", EmbeddingSettings("https://models.example", family="anthropic"))
    with pytest.raises(
        SettingsError, match=r"no embedding model 'x'.*\[embeddings\.\"x\"\].*Known models: 'bge', 'm3@Silicon'"
    ):
        ConfiguredEmbedders(ENDPOINT).embedder("x")
    with pytest.raises(SettingsError, match=r"of earlier checkouts.*delete the dataset and add its files again"):
        ConfiguredEmbedders({}).embedder("hashing-stand-in")
    assert "s3cret" not in repr(EmbeddingSettings("https://models.example/v1", api_key="s3cret"))


@each_row(
    ("id_", "name"),
    [
        ("bge", "bge"),
        ("bge@Somewhere", "bge"),
        ("m3@Silicon", "m3@Silicon"),
        ("m3@Silicon#x", "m3@Silicon"),
        ("", "bge"),
        ("known@P", "bge"),
    ],
)
def test_a_model_is_found_by_its_id(id_: str, name: str) -> None:
    known = {"known@P": ENDPOINT["bge"]}.get
    assert ConfiguredEmbedders(ENDPOINT, default="bge", find_known=known).embedder(id_).vector_model == name


async def test_without_settings_words_are_embedded_here_or_only_keywords_count(monkeypatch: pytest.MonkeyPatch) -> None:
    local = ConfiguredEmbedders({}).embedder("")
    assert local.vector_model == LOCAL_MODEL
    *vectors, long = np.array(await local.embed_chunks(["a car", "automobiles", "a banana", "car " * 20_000]))
    car, automobiles, banana = (vector / np.linalg.norm(vector) for vector in vectors)
    assert car @ automobiles > 0.4 > car @ banana
    assert np.linalg.norm(long) > 10_000
    assert list(await local.embed_question("a car")) == pytest.approx(vectors[0].tolist())
    assert "wordllama" not in sys.modules, "it configures logging, writes a cache and may ask a hub"
    assert list(await local.embed_question("年假 policy")) == [], "the model does not know Chinese"

    def find_none(name: str) -> None:
        return None

    monkeypatch.setattr(embedders, "find_spec", find_none)
    for id_ in ("", KEYWORDS):
        none = ConfiguredEmbedders({}).embedder(id_)
        assert (none.vector_model, await none.embed_question("q"), await none.embed_chunks(["a", "b"])) == (
            KEYWORDS,
            (),
            [()] * 2,
        )
