import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever

from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.langchain import DatasetRetriever, EmbeddedRetriever, RagflowIndexRetriever, RagflowRetriever
from ragflow_lg.server.settings import load_settings
from tests.fakes.elasticsearch import FakeElasticsearch
from tests.fakes.embedded import fill, stored_knowledge
from tests.fakes.http_server import Route
from tests.fakes.knowledge_models import WordEmbedder
from tests.harness.ragflow_index import create_index
from tests.harness.sample_chunks import chunks_of_tenant
from tests.integrations.knowledge.test_ragflow_knowledge import CHUNK, FakeRagflow


class Words(Embeddings):
    """The model of the sample chunks."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return WordEmbedder().vector(text)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    fill(stored_knowledge(tmp_path / "k.db"), "d", {"a.md": ["cats sleep"], "b.md": ["dogs run"]})
    return tmp_path / "k.db"


async def test_the_embedded_store(file: Path) -> None:
    async with EmbeddedRetriever(datasets=["d"], file=file, top_n=1) as retriever:
        (document,) = await retriever.ainvoke("cats")
        assert document.page_content == "cats sleep"
        assert document.id == document.metadata["chunk_id"]
        assert document.metadata["source"] == "a.md"
        assert 0 < document.metadata["similarity"] <= 1
        assert document.metadata["positions"] == [[0, 0, 0, 1, 1]]


def test_it_blocks_as_well(file: Path) -> None:
    retriever: BaseRetriever = EmbeddedRetriever(datasets=["d"], file=file)
    assert retriever.invoke("dogs")[0].page_content == "dogs run"
    assert [found[0].page_content for found in retriever.batch(["cats", "dogs"])] == ["cats sleep", "dogs run"]


async def test_all_that_the_settings_know(file: Path, tmp_path: Path) -> None:
    settings = tmp_path / "s.toml"
    settings.write_text(
        f'[knowledge]\nurl = "sqlite:///{file}"\n'
        '[knowledge.datasets.wiki]\nretriever = "tests.fakes.retrievers:retriever"\n',
        "utf-8",
    )
    async with DatasetRetriever(datasets=["d", "wiki"], settings=load_settings(settings)) as retriever:
        found = await retriever.ainvoke("cats")
    assert {document.metadata["source"] for document in found[:2]} == {"a.md", "Rice"}


async def test_a_missing_dataset_is_an_error(file: Path) -> None:
    async with EmbeddedRetriever(datasets=["d", "x"], file=file) as retriever:
        with pytest.raises(SettingsError, match="no dataset 'x'"):
            await retriever.ainvoke("cats")


@pytest.fixture
async def ragflow() -> AsyncGenerator[FakeRagflow]:
    async with FakeRagflow().running() as server:
        assert isinstance(server, FakeRagflow)
        server.data["/api/v1/datasets"] = [{"id": "1", "name": "guide"}]
        server.data["/api/v1/retrieval"] = {"chunks": [CHUNK], "doc_aggs": [], "total": 1}
        yield server


async def test_the_api_of_ragflow(ragflow: FakeRagflow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGFLOW_API_KEY", "k3y")
    async with RagflowRetriever(datasets=["guide"], url=f"http://127.0.0.1:{ragflow.port}") as retriever:
        (document,) = await retriever.ainvoke("q")
        assert (document.page_content, document.id) == ("text", "c1")
        assert document.metadata["document_id"] == "d1"
        assert "k3y" not in repr(retriever)
        ragflow.fault = Route("", status=401, body='{"code": 401, "message": "bad k3y"}')
        with pytest.raises(ServiceError, match=r"RAGFlow \(url\) refused .*Check api_key or RAGFLOW_API_KEY") as raised:
            await retriever.ainvoke("q")
        assert "k3y" not in str(raised.value)


async def test_the_index_of_ragflow() -> None:
    async with FakeElasticsearch().running() as server:
        url = f"http://127.0.0.1:{server.port}"
        await create_index(url, "ragflow_t1", [8], chunks_of_tenant("t1"))
        options: dict[str, Any] = {"datasets": ["kb-guide"], "url": url, "embeddings": Words()}
        async with RagflowIndexRetriever(tenant="t1", **options) as retriever:
            found = await retriever.ainvoke("Where is the bicycle room?")
            assert found[0].metadata["source"] == "bikes.md"
        async with RagflowIndexRetriever(tenant="t9", **options) as retriever:
            with pytest.raises(ServiceError, match=r"Elasticsearch \(url\) .*no index ragflow_t9.* Check tenant"):
                await retriever.ainvoke("q")


async def test_several_searches_share_what_is_open(file: Path) -> None:
    async with EmbeddedRetriever(datasets=["d"], file=file) as retriever:
        results = await asyncio.gather(*(retriever.ainvoke("cats") for _ in range(5)))
        assert len(retriever._opened) == 1  # pyright: ignore[reportPrivateUsage]
    assert all(result[0].page_content == "cats sleep" for result in results)
