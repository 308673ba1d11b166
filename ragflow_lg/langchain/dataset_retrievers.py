"""LangChain's retrievers over the datasets that a Retrieval can search, with the same scores."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self
from weakref import WeakKeyDictionary

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from pydantic import Field, PrivateAttr, SecretStr

from ragflow_lg.base.blocking_calls import run_blocking
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.values import to_text
from ragflow_lg.component.integration import load_store
from ragflow_lg.services.knowledge import Dataset, DatasetSearch, Embedders, Knowledge
from ragflow_lg.services.references import Chunk

if TYPE_CHECKING:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun

    from ragflow_lg.adapters.http.http_client import GuardedHttpClient
    from ragflow_lg.server.settings import Settings


_CHUNK_FIELDS: Mapping[str, tuple[str, ...]] = {
    "chunk_id": ("chunk_id", "id"),
    "document_id": ("doc_id", "document_id"),
    "document_name": ("docnm_kwd", "document_name"),
    "source": ("docnm_kwd", "document_name"),
    "dataset_id": ("kb_id", "dataset_id"),
    "url": ("url",),
    "image_id": ("image_id", "img_id"),
    "positions": ("positions",),
    "similarity": ("similarity",),
    "vector_similarity": ("vector_similarity",),
    "term_similarity": ("term_similarity",),
    "document_metadata": ("document_metadata",),
}


class _Opened(NamedTuple):
    """A store of one event loop, and what closes it."""

    knowledge: Knowledge
    close: tuple[Callable[[], Awaitable[None]], ...]


class DatasetRetriever(BaseRetriever):
    """Searches datasets of the settings, wherever they are, as a Retrieval does.

    The documents have the chunk's id, and the metadata ``source``, ``document_name``, ``document_id``, ``dataset_id``,
    ``similarity``, ``positions`` and others that the chunk has. The first search opens the store; it stays open.
    """

    datasets: list[str]
    """Names or ids."""
    top_n: Annotated[int, Field(ge=1, le=10_000)] = 8
    top_k: Annotated[int, Field(ge=1)] = 1024
    similarity_threshold: Annotated[float, Field(ge=0, le=1)] = 0.2
    keywords_similarity_weight: Annotated[float, Field(ge=0, le=1)] = 0.5
    """The rest is the weight of the vectors."""
    rerank_id: str = ""
    document_ids: list[str] | None = None
    """Searches only these documents."""
    settings: Any = None
    """The settings, as `ragflow_lg.server.settings.load_settings` returns them; None loads the default ones."""

    _opened: WeakKeyDictionary[asyncio.AbstractEventLoop, _Opened] = PrivateAttr(
        default_factory=WeakKeyDictionary[asyncio.AbstractEventLoop, _Opened]
    )

    async def aclose(self) -> None:
        """Close what the current event loop has opened."""
        if opened := self._opened.pop(asyncio.get_running_loop(), None):
            for close in opened.close:
                await close()

    async def __aenter__(self) -> Self:
        """Return the retriever."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close what was opened."""
        await self.aclose()

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun | None = None
    ) -> list[Document]:
        knowledge = self._knowledge()
        found = await knowledge.datasets(self.datasets)
        if missing := [name for name in self.datasets if name not in found]:
            raise SettingsError(f"There is no dataset {', '.join(map(repr, missing))[:300]}.")
        result = await knowledge.search(
            DatasetSearch(
                question=query,
                datasets=tuple({dataset.id: dataset for dataset in found.values()}.values()),
                document_ids=None if self.document_ids is None else tuple(self.document_ids),
                top_n=self.top_n,
                top_k=self.top_k,
                similarity_threshold=self.similarity_threshold,
                keywords_similarity_weight=self.keywords_similarity_weight,
                rerank_id=self.rerank_id,
            )
        )
        return [document_of_chunk(chunk) for chunk in result.chunks]

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return run_blocking(self._aget_relevant_documents(query))

    def _knowledge(self) -> Knowledge:
        loop = asyncio.get_running_loop()
        if loop not in self._opened:
            self._opened[loop] = self._open()
        return self._opened[loop].knowledge

    def _open(self) -> _Opened:
        from ragflow_lg.server.settings import load_settings

        settings: Settings = self.settings or load_settings(None)
        knowledge = load_store("sqlite").SettingsKnowledge(settings)
        return _Opened(knowledge, (knowledge.aclose,))


class EmbeddedRetriever(DatasetRetriever):
    """Searches datasets that ``ragflow-lg kb add`` has put into a file.

    ``embeddings`` is the model that created their vectors; None is the one of `kb add` without settings.
    """

    file: Path = Path("ragflow-lg-knowledge.db")
    embeddings: Embeddings | None = None

    def _open(self) -> _Opened:
        return _Opened(load_store("sqlite").open_file(self.file, _embedders(self.embeddings)), ())


class RagflowRetriever(DatasetRetriever):
    """Searches datasets of a RAGFlow server through its API. ``api_key`` defaults to ``RAGFLOW_API_KEY``."""

    url: str
    """``https://HOST``, without ``/api/v1``."""
    api_key: SecretStr = Field(default_factory=lambda: SecretStr(os.environ.get("RAGFLOW_API_KEY", "")))
    timeout_s: Annotated[float, Field(gt=0)] = 60.0

    def _open(self) -> _Opened:
        key, http = self.api_key.get_secret_value(), _open_http(self.url)
        names = {"setting": "url", "key_setting": "api_key or RAGFLOW_API_KEY"}
        return _Opened(
            load_store("ragflow").RagflowApiKnowledge(self.url, key, http, timeout_s=self.timeout_s, **names),
            (http.aclose,),
        )


class RagflowIndexRetriever(DatasetRetriever):
    """Searches datasets of a RAGFlow server in its Elasticsearch, with RAGFlow's formulas.

    ``datasets`` are ids, ``tenant`` is the id of their owner, and ``embeddings`` the model that created their vectors.
    """

    url: str = Field(repr=False)
    """``https://HOST:9200``, with user and password if the server needs them."""
    tenant: str
    embeddings: Embeddings
    api_key: SecretStr = SecretStr("")
    timeout_s: Annotated[float, Field(gt=0)] = 30.0

    def _open(self) -> _Opened:
        if self.rerank_id:
            raise SettingsError("RagflowIndexRetriever has no rerank models: use DatasetRetriever with settings.")
        key, http = self.api_key.get_secret_value(), _open_http(self.url)
        records = [Dataset(id_, id_, "embeddings", self.tenant) for id_ in self.datasets]
        store = load_store("elasticsearch")
        knowledge = store.open_tenant(self.url, key, self.timeout_s, records, http, _embedders(self.embeddings))
        return _Opened(knowledge, (knowledge.aclose, http.aclose))


def _open_http(*urls: str) -> GuardedHttpClient:
    """Return a client that may reach only these addresses in the private network."""
    from ragflow_lg.adapters.http.http_client import GuardedHttpClient
    from ragflow_lg.adapters.http.http_settings import HttpSettings
    from ragflow_lg.adapters.model_endpoint import endpoint_host

    return GuardedHttpClient(HttpSettings(allow=tuple(endpoint_host(url) for url in urls)))


def _embedders(embeddings: Embeddings | None) -> Embedders:
    from ragflow_lg.adapters.knowledge.embedders import ConfiguredEmbedders, LangChainEmbedder

    return ConfiguredEmbedders({}) if embeddings is None else LangChainEmbedder(embeddings)


def document_of_chunk(chunk: Chunk) -> Document:
    """Return a chunk as a document. Its metadata has the names of RAGFlow's references, and ``source``."""
    fields = {name: next((chunk[key] for key in keys if chunk.get(key)), None) for name, keys in _CHUNK_FIELDS.items()}
    content = to_text(chunk.get("content_with_weight") or chunk.get("content") or "")
    id_ = to_text(fields["chunk_id"]) if fields["chunk_id"] is not None else None
    return Document(content, id=id_, metadata={name: value for name, value in fields.items() if value is not None})
