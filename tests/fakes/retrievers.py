"""LangChain retrievers and vector stores as other packages provide them, for ``[knowledge.datasets]``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from pydantic import Field

RICE = Document("Rice needs water.", metadata={"source": "https://a.example/rice", "title": "Rice", "page": 2})
TEA = Document("Tea likes hills.", id="tea-1", metadata={"title": "Tea", "relevance_score": 0.4, "author": "Bo"})


class Letters(Embeddings):
    """Counts letters."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [1.0 + text.lower().count(chr(97 + index)) for index in range(26)]


class ScoredStore(InMemoryVectorStore):
    """A store that knows how relevant its results are."""

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return lambda cosine: cosine


class ListRetriever(BaseRetriever):
    """Returns its documents. It can be closed."""

    documents: list[Any]
    closed: list[bool] = Field(default_factory=list[bool])

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return self.documents

    async def aclose(self) -> None:
        self.closed.append(True)


class BadRetriever(BaseRetriever):
    """Fails, or never ends."""

    is_slow: bool = False

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        raise RuntimeError(f"no connection to db://user:s3cret-word@host for {query}")

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        if self.is_slow:
            await asyncio.sleep(60)
        return self._get_relevant_documents(query, run_manager=run_manager.get_sync())


retriever = ListRetriever(documents=[RICE, TEA])


def open_list(titles: list[str]) -> BaseRetriever:
    return ListRetriever(documents=[Document(f"About {title}.", metadata={"title": title}) for title in titles])


async def open_store() -> VectorStore:
    store = ScoredStore(Letters())
    await store.aadd_documents([RICE, TEA])
    return store


def open_plain_store() -> VectorStore:
    store = InMemoryVectorStore(Letters())
    store.add_documents([RICE, TEA])
    return store


def open_nothing() -> str:
    return "nothing"


def fail() -> BaseRetriever:
    raise OSError("no licence")
