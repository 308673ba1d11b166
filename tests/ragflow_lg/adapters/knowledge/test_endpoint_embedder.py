import json
from typing import Any, cast

import numpy as np
import pytest

from ragflow_lg.adapters.knowledge.endpoint_embedder import (
    HASHING_MODEL,
    ConfiguredEmbedders,
    EmbeddingSettings,
    EndpointEmbedder,
    HashingEmbedder,
)
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.services.http import HttpRequest, HttpResponse
from tests.fakes.counted_workers import CountedWorkers
from tests.fakes.services import ScriptedHttp
from tests.harness.rows import each_row

ENDPOINT = {name: EmbeddingSettings("https://models.example/v1", name) for name in ("bge", "m3@Silicon")}

SETTINGS = EmbeddingSettings("https://models.example/v1/", "bge", api_key="s3cret", dims=2, batch=2, max_retries=1)


class Endpoint:
    """Sends prepared answers; after the last one, a vector for each text."""

    def __init__(self, *answers: tuple[int, Any, dict[str, str]]) -> None:
        self.answers = list(answers)
        self.requests: list[HttpRequest] = []

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        texts = cast("dict[str, list[str]]", request.json)["input"]
        default = {"data": [{"index": i, "embedding": [len(text), 1]} for i, text in enumerate(texts)][::-1]}
        status, body, headers = self.answers.pop(0) if self.answers else (200, default, {})
        return HttpResponse(status, headers, body if isinstance(body, str) else json.dumps(body), request.url)


async def test_texts_are_sent_in_batches_and_vectors_returned_in_order() -> None:
    endpoint = Endpoint()
    vectors = await EndpointEmbedder("e", SETTINGS, endpoint).embed_chunks(["a", "bb", "ccc"])
    assert vectors == [[1, 1], [2, 1], [3, 1]]
    first, second = endpoint.requests
    assert (first.url, first.json) == ("https://models.example/v1/embeddings", {"model": "bge", "input": ["a", "bb"]})
    assert first.headers == {"Authorization": "Bearer s3cret"}
    assert second.json == {"model": "bge", "input": ["ccc"]}


async def test_an_empty_question_becomes_none_and_a_long_one_is_truncated() -> None:
    endpoint = Endpoint()
    embedder = EndpointEmbedder("e", SETTINGS, endpoint)
    assert await embedder.embed_question(" ") == [4, 1]
    assert await embedder.embed_question("x" * 100_000) == [6000, 1]


async def test_temporary_failures_are_retried() -> None:
    endpoint = Endpoint((429, "slow down", {"retry-after": "0.01"}))
    settings = EmbeddingSettings("https://models.example/v1", "bge")
    assert await EndpointEmbedder("e", settings, endpoint).embed_question("ab") == [2, 1]
    assert len(endpoint.requests) == 2


@each_row(
    ("status", "body", "problem"),
    [
        (401, "wrong key s3cret", r"answered with status 401: wrong key \*\*\*\."),
        (200, "<html>", "without embeddings: <html>"),
        (200, {"data": [{"embedding": "x"}]}, "without embeddings"),
        (200, {"data": []}, "returned 0 vectors for 1 texts"),
        (200, {"data": [{"embedding": [1, 2, 3]}]}, "a vector of 3 numbers instead of 2"),
        (200, '{"data": [{"embedding": [1, NaN]}]}', "invalid numbers"),
        (200, '{"data": [{"embedding": [1, 1e300]}]}', "invalid numbers"),
        (200, f'{{"data": [{{"embedding": [1, 1{"0" * 400}]}}]}}', "without embeddings"),
        (200, '{"data": [' + "{}," * 100_000 + "1]}", "its JSON has more than 16,384 entries"),
        (503, "", "answered with status 503: nothing"),
    ],
)
async def test_failures_name_the_setting_but_not_the_key(status: int, body: Any, problem: str) -> None:
    endpoint = Endpoint(*[(status, body, {"retry-after": "90"})] * 2)
    with pytest.raises(ServiceError, match=problem) as raised:
        await EndpointEmbedder("e", SETTINGS, endpoint).embed_question("q")
    assert '[embeddings."e"]' in str(raised.value)
    assert "s3cret" not in str(raised.value)
    assert len(endpoint.requests) == 1
    assert "s3cret" not in repr(SETTINGS)


async def test_large_vectors_are_read_in_a_worker_and_keep_their_numbers() -> None:
    rows = [[number / 7 for number in range(3072)] for _ in range(2)]
    answer = {"data": [{"index": index, "embedding": row} for index, row in enumerate(rows)]}
    workers = CountedWorkers()
    embedder = EndpointEmbedder("e", EmbeddingSettings("https://m/v1"), Endpoint((200, answer, {})), workers)
    assert await embedder.embed_chunks(["a", "b"]) == rows
    assert workers.names == ["read_vectors"]


async def test_a_missing_key_names_its_variable() -> None:
    settings = EmbeddingSettings("https://models.example/v1", "bge", key_variable="BGE_KEY")
    with pytest.raises(SettingsError, match=r"variable 'BGE_KEY' of .* is not set"):
        await EndpointEmbedder("e", settings, Endpoint()).embed_question("q")


@each_row(
    ("id_", "name"),
    [
        ("bge", "bge"),
        ("bge@Somewhere", "bge"),
        ("m3@Silicon", "m3@Silicon"),
        ("m3@Silicon#x", "m3@Silicon"),
        ("", "bge"),
    ],
)
def test_a_model_is_found_by_its_id(id_: str, name: str) -> None:
    assert ConfiguredEmbedders(ENDPOINT, ScriptedHttp(), default="bge").embedder(id_).name == name


def test_without_settings_the_hashing_model_is_used() -> None:
    embedders = ConfiguredEmbedders({}, ScriptedHttp())
    assert embedders.default == HASHING_MODEL
    assert embedders.embedder("").is_stand_in


def test_the_error_for_an_unknown_model_names_the_setting() -> None:
    with pytest.raises(
        SettingsError, match=r"no embedding model 'x'.*\[embeddings\.\"x\"\].*Known models: 'bge', 'm3@Silicon'"
    ):
        ConfiguredEmbedders(ENDPOINT, ScriptedHttp()).embedder("x")


async def test_vectors_have_length_1_and_do_not_depend_on_word_order() -> None:
    embedder = HashingEmbedder()
    (vector,) = await embedder.embed_chunks(["Two kettles 水壶"])
    places = [(i, round(x, 4)) for i, x in enumerate(vector) if x]
    assert places == [(61, 0.5774), (102, -0.5774), (188, 0.5774)]
    assert list(await embedder.embed_question("kettle, two 水壶")) == list(vector)


def test_a_text_without_words_has_a_zero_vector() -> None:
    assert not np.any(HashingEmbedder().vectors(["…", ""]))


def test_the_name_says_that_it_is_a_stand_in() -> None:
    assert HashingEmbedder.is_stand_in
    assert "stand-in" in HashingEmbedder.name
