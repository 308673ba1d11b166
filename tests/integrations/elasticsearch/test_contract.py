"""The contract server and a real Elasticsearch return the same candidates with the same scores for many questions."""

import os
import random

import pytest

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.integrations.elasticsearch.connection import Connection, ElasticsearchSettings, SearchHits
from ragflow_lg.integrations.elasticsearch.search_requests import Scope, build_candidates_request
from ragflow_lg.integrations.elasticsearch.term_weights import TermWeights
from ragflow_lg.integrations.elasticsearch.text_query import TextQuery, build_text_query
from ragflow_lg.integrations.elasticsearch.tokenizers import VocabularyTokenizer
from tests.fakes.elasticsearch import FakeElasticsearch
from tests.fakes.knowledge_models import WordEmbedder
from tests.harness.elasticsearch_node import VARIABLE
from tests.harness.ragflow_index import create_index
from tests.harness.sample_chunks import chunk

pytestmark = pytest.mark.slow

ENGLISH = "bicycle room laundry key label spring token heating winter stairs"
WORDS = [*ENGLISH.split(), "洗衣房", "自行车", "钥匙", "楼梯", "地下室", "暖气"]
TOKENIZER = VocabularyTokenizer(WORDS)
WEIGHTS = TermWeights(TOKENIZER)
EMBEDDER = WordEmbedder()
SCOPE = Scope(("kb",))


def _texts(count: int, words: int, chance: random.Random) -> list[str]:
    return [" ".join(chance.choice(WORDS) for _ in range(words)) for _ in range(count)]


def _query(question: str, percent: int) -> TextQuery:
    query = build_text_query(question, WEIGHTS)
    return TextQuery(query.text, query.keywords, percent / 100)


@pytest.mark.elasticsearch
async def test_both_servers_return_the_same_hits_and_scores(fake: FakeElasticsearch) -> None:
    real = os.environ.get(VARIABLE)
    if not real:
        pytest.skip("no real Elasticsearch: python -m tests.campaigns elasticsearch starts one")
    chance = random.Random(5)
    rows = [
        chunk(f"c{number}", "kb", "a.md", text, tokenizer=TOKENIZER)
        for number, text in enumerate(_texts(60, 7, chance))
    ]
    index = f"ragflow_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-contract"
    http = GuardedHttpClient(HttpSettings(allow=("127.0.0.1",)))
    servers = [Connection(ElasticsearchSettings(url), http) for url in (fake.url, real)]
    for url in (fake.url, real):
        await create_index(url, index, [8], rows)
    totals: set[int] = set()
    texts = [text for words in (2, 3, 5) for text in _texts(12, words, chance)]
    for number, question in enumerate(texts):
        query = _query(question, (0, 10, 30, 50, 100)[number % 5])
        vector = EMBEDDER.vector(question)
        body = build_candidates_request(query, vector, SCOPE, top_k=64, size=64, similarity=0.3)
        results: list[SearchHits] = [await server.search([index], body) for server in servers]
        scores = [{hit.id: hit.score for hit in hits.hits} for hits in results]
        assert scores[0].keys() == scores[1].keys(), query
        assert scores[0] == pytest.approx(scores[1], abs=2e-6), query
        assert results[0].total == results[1].total
        totals.add(results[0].total)
    assert len(totals) > 5  # the questions match different chunks
    await http.aclose()
