import asyncio
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from elasticsearch import Elasticsearch
from langchain_elasticsearch import ElasticsearchStore

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.adapters.knowledge.embedders import EmbedderEmbeddings
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.elasticsearch.connection import ElasticsearchSettings
from ragflow_lg.integrations.elasticsearch.store_retriever import StoreRetriever, StoreStrategy, open_index
from ragflow_lg.integrations.knowledge.knowledge_sources import SettingsKnowledge
from ragflow_lg.integrations.knowledge.retriever_knowledge import RetrieverKnowledge, RetrieverSettings
from ragflow_lg.server.settings import load_settings
from ragflow_lg.services.knowledge import Dataset, DatasetSearch, SearchResult
from tests.fakes.elasticsearch import HEADERS, FakeElasticsearch
from tests.fakes.http_server import Route
from tests.fakes.knowledge_models import WordEmbedders
from tests.harness.rows import each_row
from tests.integrations.elasticsearch.conftest import prefix

ARTICLES = Dataset("articles", "articles")
TEXTS = {
    "a1": ("Rice needs water and warm days.", {"title": "Rice", "source": "https://a.example/rice"}),
    "a2": ("Tea likes hills.", {"title": "Tea"}),
    "a3": ("Trains leave from the main station.", {"title": "Trains"}),
}


def index() -> str:
    return f"articles-{prefix()}"


@pytest.fixture
async def http() -> AsyncGenerator[GuardedHttpClient]:
    client = GuardedHttpClient(HttpSettings(allow=("127.0.0.1",)))
    yield client
    await client.aclose()


@pytest.fixture
async def articles(server_url: str) -> str:
    """A server with an index that langchain-elasticsearch made, by its own client."""
    await asyncio.to_thread(_make_index, server_url)
    return server_url


def _make_index(url: str) -> None:
    embeddings = EmbedderEmbeddings(WordEmbedders().embedder(""))
    with closing(ElasticsearchStore(index(), client=Elasticsearch(url), embedding=embeddings)) as store:
        if not store.client.indices.exists(index=index()):
            texts, metadata = zip(*TEXTS.values(), strict=True)
            cast("Any", store).add_texts([*texts], metadatas=[*metadata], ids=[*TEXTS])


def _retriever(url: str, http: GuardedHttpClient, strategy: StoreStrategy = "vector", name: str = "") -> StoreRetriever:
    server, embedder = ElasticsearchSettings(url), WordEmbedders().embedder("")
    return open_index(server, name or index(), http, embedder, strategy=strategy)


async def _search(retriever: StoreRetriever, question: str, **more: Any) -> SearchResult:
    knowledge = RetrieverKnowledge(RetrieverSettings(ARTICLES, lambda: retriever))
    return await knowledge.search(DatasetSearch(question, (ARTICLES,), **more))


async def test_an_index_of_langchain_is_searched(articles: str, http: GuardedHttpClient) -> None:
    result = await _search(_retriever(articles, http), "rice water", top_n=2)
    first = result.chunks[0]
    assert (first["chunk_id"], first["docnm_kwd"], first["url"]) == ("a1", "Rice", "https://a.example/rice")
    assert 0.5 < cast("float", first["similarity"]) <= 1.0
    assert len(result.chunks) == 2
    assert len((await _search(_retriever(articles, http), "rice", top_n=200)).chunks) == 3


@pytest.mark.parametrize("server_url", [pytest.param("real", marks=pytest.mark.elasticsearch)], indirect=True)
@pytest.mark.parametrize("strategy", ["keywords", "hybrid"])
async def test_other_strategies_have_an_order_but_no_scores(
    articles: str, http: GuardedHttpClient, strategy: StoreStrategy
) -> None:
    retriever = _retriever(articles, http, strategy)
    result = await _search(retriever, "tea hills", top_n=1)
    assert [(chunk["docnm_kwd"], chunk["similarity"]) for chunk in result.chunks] == [("Tea", 1.0)]


@each_row(
    ("fault", "problem"),
    [
        ({"timed_out": True}, "cannot be searched: .*exceeded the server's time limit"),
        ({"_shards": {"total": 2, "failed": 1}}, "cannot be searched: .*1 of its shards failed"),
        ({"hits": {}}, "cannot be searched: .*has no hits"),
        (Route("", status=401, headers=HEADERS, body="{}"), "api_key"),
        (Route("", status=404, headers=HEADERS, body="{}"), r"index in \[knowledge\.datasets\]"),
        (Route("", status=503, headers=HEADERS, body="{}"), "unavailable"),
    ],
)
async def test_incomplete_answers_and_refusals_are_errors(
    fake: FakeElasticsearch, http: GuardedHttpClient, fault: Any, problem: str
) -> None:
    fake.indices[index()] = {}
    fake.mappings[index()] = {"mappings": {"properties": {"vector": {"dims": 8}}}}
    fake.spoil = lambda answer: fault if isinstance(fault, Route) else {**answer, **fault}
    with pytest.raises(ServiceError, match=rf"\(url in \[knowledge\.datasets\]\).*{problem}"):
        await _search(_retriever(fake.url, http), "rice")


async def test_the_settings_open_an_index(fake: FakeElasticsearch, tmp_path: Path) -> None:
    fake.indices["other"] = {"1": {"body": "Rice.", "metadata": {"title": "Rice"}, "v": [1.0] * 256}}
    fake.mappings["other"] = {"mappings": {"properties": {"v": {"dims": 256}}}}
    file = tmp_path / "s.toml"
    file.write_text(
        f'[knowledge]\nurl = "sqlite:///{tmp_path}/k.db"\n[knowledge.datasets.notes]\n'
        f'url = "elasticsearch+http://elastic:s3cret@127.0.0.1:{fake.port}"\nindex = "other"\n'
        'text_field = "body"\nvector_field = "v"\nembedding_model = "wordllama"\n',
        "utf-8",
    )
    settings = load_settings(file)
    assert "s3cret" in settings.secrets
    knowledge = SettingsKnowledge(settings)
    try:
        datasets = await knowledge.datasets(["notes"])
        result = await knowledge.search(DatasetSearch("rice", (*datasets.values(),)))
        assert [chunk["docnm_kwd"] for chunk in result.chunks] == ["Rice"]
    finally:
        await knowledge.aclose()
