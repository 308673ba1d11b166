"""Searching datasets: what a Retrieval asks for, and what answers it. Values and Protocols only.

Source: RAGFlow's ``agent/tools/retrieval.py`` and ``rag/nlp/search.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from ragflow_lg.services.references import Chunk

__all__ = [
    "Dataset",
    "DatasetSearch",
    "DocumentCount",
    "Embedder",
    "Embedders",
    "SearchResult",
    "Knowledge",
    "Metadata",
    "Reranker",
    "Rerankers",
]

Metadata: TypeAlias = Mapping[str, Mapping[str, Sequence[str]]]
"""``{key: {value as text: document ids}}``: what is known of the documents of some datasets."""


class Dataset(NamedTuple):
    """A dataset. ``embedding_model`` is the ``embd_id`` that RAGFlow keeps, as ``bge-m3@SILICONFLOW``."""

    id: str
    name: str
    embedding_model: str = ""
    tenant: str = ""


class DatasetSearch(Struct, frozen=True):
    """One search. The weight of the vectors is ``1 - keywords_similarity_weight``.

    ``document_ids`` limits it to some documents; None means all, an empty tuple none.
    """

    question: str
    datasets: tuple[Dataset, ...]
    document_ids: tuple[str, ...] | None = None
    top_n: int = 8
    top_k: int = 1024
    similarity_threshold: float = 0.2
    keywords_similarity_weight: float = 0.5
    rerank_id: str = ""
    toc_enhance: bool = False
    use_kg: bool = False


class DocumentCount(NamedTuple):
    """How many of the chunks that were found are of one document."""

    name: str
    id: str
    chunks: int


class SearchResult(Struct, frozen=True):
    """What a search gave: the best ``top_n`` chunks, best first, with RAGFlow's field names.

    ``documents`` counts all chunks over the threshold, not only those given; most first. ``total`` is their number.
    """

    chunks: tuple[Chunk, ...] = ()
    documents: tuple[DocumentCount, ...] = ()
    total: int = 0


class Knowledge(Protocol):
    """A place that holds datasets. Every method raises `ragflow_lg.base.errors.ServiceError` if it cannot answer."""

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        """Find datasets: what was asked for -> the dataset. A name goes before an id; unknown ones are left out."""
        ...

    async def search(self, search: DatasetSearch) -> SearchResult:
        """Search datasets, which share one embedding model.

        Raises:
            SettingsError: for what this place cannot do (``rerank_id``, ``toc_enhance``, ``use_kg``), by name.
            ServiceError: if it is down, slow, or answers what nobody can use. Never an empty success instead.
        """
        ...

    async def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        """Give the metadata of all documents, for `meta_data_filter`."""
        ...


class Embedder(Protocol):
    """Turns texts into vectors of one length."""

    @property
    def name(self) -> str:
        """What people are told: the model, or that it is a stand-in."""
        ...

    @property
    def is_stand_in(self) -> bool:
        """Whether the vectors carry no meaning, only words."""
        ...

    async def embed_question(self, text: str) -> Sequence[float]:
        """Give the vector of a question."""
        ...

    async def embed_chunks(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Give the vectors of chunks, in order."""
        ...


class Embedders(Protocol):
    """Finds the model for the ``embd_id`` of a dataset; ``""`` means the default one."""

    def embedder(self, embedding_model: str) -> Embedder:
        """Give it, or raise `ragflow_lg.base.errors.SettingsError` naming the missing setting."""
        ...


class Reranker(Protocol):
    """Scores chunks against a question by a model of its own."""

    async def scores(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Give a score for each text, in order."""
        ...


class Rerankers(Protocol):
    """Finds the model for a ``rerank_id``."""

    def reranker(self, rerank_id: str) -> Reranker:
        """Give it, or raise `ragflow_lg.base.errors.SettingsError` naming the missing setting."""
        ...
