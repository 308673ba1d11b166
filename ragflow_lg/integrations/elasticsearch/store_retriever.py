"""Indices that RAGFlow did not make, searched by langchain-elasticsearch's vector store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from ragflow_lg.adapters.knowledge.embedders import EmbedderEmbeddings
from ragflow_lg.base.blocking_calls import run_blocking
from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.integrations.elasticsearch.connection import ElasticsearchSettings, SettingNames, open_client
from ragflow_lg.services.http import HttpClient
from ragflow_lg.services.knowledge import Embedder

if TYPE_CHECKING:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_elasticsearch import AsyncElasticsearchStore

StoreStrategy: TypeAlias = Literal["vector", "keywords", "hybrid"]

MIN_CANDIDATES = 50
MAX_CANDIDATES = 10_000
"""The largest number that Elasticsearch accepts."""

SETTING_NAMES = SettingNames(
    "url in [knowledge.datasets]",
    "index in [knowledge.datasets]",
    "embedding_model and vector_field in [knowledge.datasets]",
    "text_field, vector_field and strategy in [knowledge.datasets]",
)


class StoreRetriever(BaseRetriever):
    """Searches an index. Only the scores of ``vector`` lie between 0 and 1 and become relevance scores."""

    store: Any
    """An `AsyncElasticsearchStore`."""
    has_relevance: bool
    k: int = 8

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        count = min(k or self.k, MAX_CANDIDATES)
        candidates = min(max(2 * count, MIN_CANDIDATES), MAX_CANDIDATES)
        return await self.store.asimilarity_search(query, count, candidates, doc_builder=self._build)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return run_blocking(self.ainvoke(query, k=k))

    async def aclose(self) -> None:
        """Close the client."""
        await cast("AsyncElasticsearchStore", self.store).aclose()

    def _build(self, hit: Mapping[str, Any]) -> Document:
        """Return a hit as a document: its id and its score, which the store leaves out, are needed by citations."""
        fields, score = as_map(hit.get("_source")), hit.get("_score")
        metadata = {**as_map(fields.get("metadata"))}
        if self.has_relevance and isinstance(score, int | float):
            metadata["relevance_score"] = score
        text = fields.get(cast("AsyncElasticsearchStore", self.store).query_field)
        return Document(text if isinstance(text, str) else "", id=str(hit.get("_id")), metadata=metadata)


def open_index(
    server: ElasticsearchSettings,
    index: str,
    http: HttpClient,
    embedder: Embedder | None,
    *,
    text_field: str = "text",
    vector_field: str = "vector",
    strategy: StoreStrategy = "vector",
) -> StoreRetriever:
    """Return a retriever for an index. It sends no request before its first search.

    ``embedder`` is the model that created the vectors; ``keywords`` needs none.
    """
    from elasticsearch.helpers.vectorstore import AsyncBM25Strategy, AsyncDenseVectorStrategy
    from langchain_elasticsearch import AsyncElasticsearchStore

    # ``hybrid`` adds both scores: reciprocal ranks need a paid licence of Elasticsearch.
    vectors = AsyncDenseVectorStrategy(hybrid=strategy == "hybrid", rrf=False)
    store = AsyncElasticsearchStore(
        index,
        embedding=EmbedderEmbeddings(embedder) if embedder is not None else None,
        client=open_client(server, http, SETTING_NAMES),
        query_field=text_field,
        vector_query_field=vector_field,
        strategy=AsyncBM25Strategy() if strategy == "keywords" else vectors,
    )
    return StoreRetriever(store=store, has_relevance=strategy == "vector")
