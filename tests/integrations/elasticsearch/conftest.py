import os
from collections.abc import AsyncGenerator

import pytest

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.integrations.elasticsearch.connection import Connection, ElasticsearchSettings
from ragflow_lg.integrations.elasticsearch.elasticsearch_knowledge import ElasticsearchKnowledge
from tests.fakes.elasticsearch import FakeElasticsearch
from tests.fakes.knowledge_models import WordEmbedders, WordRerankers
from tests.harness.elasticsearch_node import VARIABLE
from tests.harness.ragflow_index import create_index, create_metadata_index
from tests.harness.sample_chunks import GUIDE, LETTERS, OTHER, chunks_of_tenant, metadata_of_tenant

_servers_with_chunks: set[str] = set()
"""Servers with the sample chunks, which tests do not change."""


def prefix() -> str:
    """Return a prefix for the tenants of this test process."""
    return os.environ.get("PYTEST_XDIST_WORKER", "main")


@pytest.fixture
async def fake() -> AsyncGenerator[FakeElasticsearch]:
    async with FakeElasticsearch().running() as server:
        assert isinstance(server, FakeElasticsearch)
        yield server


@pytest.fixture(params=["contract", pytest.param("real", marks=pytest.mark.elasticsearch)])
async def server_url(request: pytest.FixtureRequest) -> AsyncGenerator[str]:
    """The address of an empty server."""
    if request.param == "contract":
        async with FakeElasticsearch().running() as server:
            yield f"http://127.0.0.1:{server.port}"
    elif os.environ.get(VARIABLE):
        yield os.environ[VARIABLE]
    else:
        pytest.skip("no real Elasticsearch: python -m tests.campaigns elasticsearch starts one")


@pytest.fixture
async def knowledge(server_url: str) -> AsyncGenerator[ElasticsearchKnowledge]:
    """A knowledge base with the sample chunks."""
    if server_url not in _servers_with_chunks:
        for tenant in ("t1", "t2"):
            await create_index(server_url, f"ragflow_{prefix()}-{tenant}", [8], chunks_of_tenant(tenant))
        await create_metadata_index(server_url, f"ragflow_doc_meta_{prefix()}-t1", metadata_of_tenant())
    if server_url == os.environ.get(VARIABLE):
        _servers_with_chunks.add(server_url)
    http = GuardedHttpClient(HttpSettings(allow=("127.0.0.1",)))
    connection = Connection(ElasticsearchSettings(server_url), http)
    records = [record._replace(tenant=f"{prefix()}-{record.tenant}") for record in (GUIDE, LETTERS, OTHER)]
    yield ElasticsearchKnowledge(connection, records, WordEmbedders(), rerankers=WordRerankers())
    await connection.aclose()
    await http.aclose()
