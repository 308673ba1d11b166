"""A dataset that any LangChain retriever or vector store searches, and LangChain's documents as RAGFlow's chunks.

What a document contains was written by others: texts are bounded, and only the metadata that citations need, or that
the settings name, gets into a chunk.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from msgspec import Struct

from ragflow_lg.adapters.knowledge.document_chunks import chunk_of_document
from ragflow_lg.adapters.knowledge.rerankers import search_reranked
from ragflow_lg.base.errors import RagflowLgError, ServiceError, SettingsError, foreign_line
from ragflow_lg.services.knowledge import (
    Dataset,
    DatasetEntry,
    DatasetSearch,
    Metadata,
    Rerankers,
    SearchResult,
    count_documents,
)
from ragflow_lg.services.references import Chunk
from ragflow_lg.services.services import SupportsClose

if TYPE_CHECKING:
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.vectorstores import VectorStore

Opened: TypeAlias = "BaseRetriever | VectorStore"
OpenRetriever: TypeAlias = Callable[[], Any]
"""Returns a retriever or a vector store, or an awaitable that does."""

MAX_DOCUMENTS = 10_000
_MAX_ERROR_CHARS = 400
_MAX_QUESTION_CHARS = 20_000


class RetrieverSettings(Struct, frozen=True):
    """A dataset that has a retriever of its own. ``metadata`` are the keys that models and citations get."""

    dataset: Dataset
    open: OpenRetriever
    metadata: tuple[str, ...] = ()
    timeout_s: float = 30.0
    secrets: tuple[str, ...] = ()
    """What error messages must not contain."""


class RetrieverKnowledge:
    """A `ragflow_lg.services.knowledge.Knowledge` with one dataset; the first search opens its retriever."""

    def __init__(self, settings: RetrieverSettings, rerankers: Rerankers | None = None) -> None:
        self._settings = settings
        self._rerankers = rerankers
        self._opened: Opened | None = None
        self._opening = asyncio.Lock()

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        """Return the dataset if it is asked for."""
        dataset = self._settings.dataset
        return {name: dataset for name in names_or_ids if name in (dataset.name, dataset.id)}

    async def list_datasets(self) -> Sequence[DatasetEntry]:
        """Return the dataset. Its size is unknown, and given as 0."""
        return [DatasetEntry(self._settings.dataset)]

    async def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        """Refuse: a retriever cannot list the metadata of its documents.

        Raises:
            SettingsError: always.
        """
        raise SettingsError(
            f"The Retrieval node sets meta_data_filter, which a retriever does not support: "
            f"{self._settings.dataset.name!r} in [knowledge.datasets] has one. Remove the filter."
        )

    async def search(self, search: DatasetSearch) -> SearchResult:
        """Search, and return the documents in the retriever's order.

        The threshold applies to documents that have a score.
        """
        return await search_reranked(search, self._find, self._rerankers)

    async def _find(self, search: DatasetSearch) -> SearchResult:
        for name in ("rerank_id", "toc_enhance", "use_kg"):
            if getattr(search, name):
                raise SettingsError(
                    f"The Retrieval node sets {name}, which a retriever does not support: "
                    f"{self._settings.dataset.name!r} in [knowledge.datasets] has one. Remove it."
                )
        settings = self._settings
        try:
            async with asyncio.timeout(settings.timeout_s):
                scored = await self._ask(search.question[:_MAX_QUESTION_CHARS], min(search.top_n, MAX_DOCUMENTS))
        except TimeoutError:
            raise ServiceError(f"{self._name} took longer than {settings.timeout_s:g} s.", is_retryable=True) from None
        except (RagflowLgError, asyncio.CancelledError):
            raise
        except Exception as error:  # third-party code may raise anything
            raise self._failure(f"failed: {type(error).__name__}: {error}") from error
        chunks = self._chunks(scored, search)
        return SearchResult(tuple(chunks[: search.top_n]), count_documents(chunks), len(chunks))

    async def aclose(self) -> None:
        """Close the retriever if it can be closed."""
        opened, self._opened = self._opened, None
        if isinstance(opened, SupportsClose):
            await opened.aclose()

    @property
    def _name(self) -> str:
        return f"The dataset {self._settings.dataset.name!r} (its retriever in [knowledge.datasets])"

    def _failure(self, what: str) -> ServiceError:
        return ServiceError(f"{self._name} {foreign_line(what, self._settings.secrets, _MAX_ERROR_CHARS)}")

    async def _ask(self, question: str, count: int) -> Sequence[tuple[Document, float | None]]:
        from langchain_core.vectorstores import VectorStore, VectorStoreRetriever

        opened = await self._open()
        if isinstance(opened, VectorStore):
            return await _ask_store(opened, question, count)
        if isinstance(opened, VectorStoreRetriever):
            takes_count = "k" not in opened.search_kwargs
        else:
            ask = opened._aget_relevant_documents  # pyright: ignore[reportPrivateUsage] - retrievers implement it
            takes_count = "k" in inspect.signature(ask).parameters
        more: dict[str, Any] = {"k": count} if takes_count else {}
        return [(document, None) for document in await opened.ainvoke(question, **more)]

    async def _open(self) -> Opened:
        from langchain_core.retrievers import BaseRetriever
        from langchain_core.vectorstores import VectorStore

        async with self._opening:
            if self._opened is None:
                opened: Any = await asyncio.to_thread(self._settings.open)
                if inspect.isawaitable(opened):
                    opened = await opened
                if not isinstance(opened, BaseRetriever | VectorStore):
                    kind = type(cast("object", opened)).__name__
                    raise SettingsError(
                        f"{self._name} is a {kind}, not a LangChain BaseRetriever or VectorStore, nor a function that "
                        "returns one."
                    )
                self._opened = opened
            return self._opened

    def _chunks(self, scored: Sequence[tuple[Any, float | None]], search: DatasetSearch) -> list[Chunk]:
        from langchain_core.documents import Document

        settings = self._settings
        allowed = None if search.document_ids is None else set(search.document_ids)
        chunks: list[Chunk] = []
        for document, score in scored[:MAX_DOCUMENTS]:
            if not isinstance(document, Document):
                raise self._failure(f"returned a {type(document).__name__} where a Document should be.")
            chunk = chunk_of_document(document, settings.dataset.id, score, settings.metadata)
            is_near = cast("float", chunk["similarity"]) >= search.similarity_threshold
            if chunk["content_with_weight"] and is_near and (allowed is None or chunk["doc_id"] in allowed):
                chunks.append(chunk)
        return chunks


async def _ask_store(store: VectorStore, question: str, count: int) -> Sequence[tuple[Document, float | None]]:
    """Search a vector store. Not every store knows how its scores relate to relevance; its order counts then."""
    try:
        return [*await store.asimilarity_search_with_relevance_scores(question, k=count)]
    except NotImplementedError:
        return [(document, None) for document in await store.asimilarity_search(question, k=count)]
