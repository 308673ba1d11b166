"""Embedding models of LangChain as ours, and ours as LangChain's."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.embeddings import Embeddings

from ragflow_lg.base.blocking_calls import run_blocking
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.services.knowledge import Embedder


class EmbedderEmbeddings(Embeddings):
    """One of our embedding models for LangChain's vector stores."""

    def __init__(self, embedder: Embedder) -> None:
        """Initialize."""
        self.embedder = embedder

    async def aembed_query(self, text: str) -> list[float]:
        """Return the vector for a question."""
        return [*map(float, await self.embedder.embed_question(text))]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors for texts, in order."""
        return [[*map(float, vector)] for vector in await self.embedder.embed_chunks(texts)]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector for a question. It blocks."""
        return run_blocking(self.aembed_query(text))

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors for texts, in order. It blocks."""
        return run_blocking(self.aembed_documents(texts))


class LangChainEmbedder:
    """A `ragflow_lg.services.knowledge.Embedder` that asks one of LangChain's models, whatever its id is.

    It raises ServiceError if the model fails.
    """

    is_stand_in = False
    vector_model = ""

    def __init__(self, embeddings: Embeddings) -> None:
        """Initialize."""
        self._embeddings = embeddings

    @property
    def name(self) -> str:
        """The name of the model's class."""
        return type(self._embeddings).__name__

    def embedder(self, embedding_model: str) -> Embedder:
        """Return itself: it is used for all datasets."""
        return self

    async def embed_question(self, text: str) -> Sequence[float]:
        """Return the vector for a question."""
        try:
            return await self._embeddings.aembed_query(text)
        except Exception as error:  # third-party code may raise anything
            raise ServiceError(f"{self.name} cannot embed the question: {type(error).__name__}: {error}.") from error

    async def embed_chunks(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the vectors for chunks, in order."""
        try:
            return await self._embeddings.aembed_documents([*texts])
        except Exception as error:  # third-party code may raise anything
            raise ServiceError(f"{self.name} cannot embed texts: {type(error).__name__}: {error}.") from error
