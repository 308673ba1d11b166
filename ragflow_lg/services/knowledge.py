"""Dataset search: values, Protocols, and what the stores share.

Source: RAGFlow's ``agent/tools/retrieval.py`` and ``rag/nlp/search.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from ragflow_lg.base.lenient_values import as_items
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.services.references import Chunk

Metadata: TypeAlias = Mapping[str, Mapping[str, Sequence[str]]]
"""``{key: {value as text: document ids}}``: the metadata of all documents in some datasets."""


class Dataset(NamedTuple):
    """A dataset. ``embedding_model`` is RAGFlow's ``embd_id``, for example ``bge-m3@SILICONFLOW``.

    It is ``""`` for a dataset with a retriever of its own, which can be searched together with any other.
    """

    id: str
    name: str
    embedding_model: str = ""
    tenant: str = ""


class DatasetSearch(Struct, frozen=True):
    """One search. The vector weight is ``1 - keywords_similarity_weight``.

    ``document_ids`` restricts the search to some documents; None means all, an empty tuple none.
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
    """The number of matching chunks in one document."""

    name: str
    id: str
    chunks: int


class SearchResult(Struct, frozen=True):
    """The best ``top_n`` chunks for a search, best first, with RAGFlow's field names.

    ``documents`` counts all chunks above the threshold, not only ``chunks``, and is sorted by descending count.
    ``total`` is the total number of these chunks.
    """

    chunks: tuple[Chunk, ...] = ()
    documents: tuple[DocumentCount, ...] = ()
    total: int = 0


def count_documents(chunks: Iterable[Chunk]) -> tuple[DocumentCount, ...]:
    """Return the documents of chunks, those with most chunks first."""
    counts = Counter((to_text(chunk["docnm_kwd"]), to_text(chunk["doc_id"])) for chunk in chunks)
    return tuple(DocumentCount(name, id_, count) for (name, id_), count in counts.most_common())


def add_metadata(metadata: dict[str, dict[str, list[str]]], document: str, fields: Mapping[str, Any]) -> None:
    """Add the metadata of a document. Each item in a list counts as a value."""
    for key, value in fields.items():
        for item in as_items(value):
            metadata.setdefault(key, {}).setdefault(to_text(item), []).append(document)


class Knowledge(Protocol):
    """A dataset store.

    Every method raises `ragflow_lg.base.errors.ServiceError` on failure.
    """

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        """Return datasets by requested name or id. Names take precedence over ids; unknown datasets are omitted."""
        ...

    async def search(self, search: DatasetSearch) -> SearchResult:
        """Search datasets that share one embedding model.

        Raises:
            SettingsError: for an unsupported option (``rerank_id``, ``toc_enhance``, ``use_kg``); the message names it.
            ServiceError: if the store is unavailable, too slow, or returns an unusable response. Failures are never
            reported as an empty result.
        """
        ...

    async def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        """Return the metadata of all documents, for ``meta_data_filter``."""
        ...


class DatasetEntry(NamedTuple):
    """A dataset in a list, with its size."""

    dataset: Dataset
    documents: int = 0
    chunks: int = 0


@runtime_checkable
class DatasetDirectory(Protocol):
    """A dataset store that can list its datasets."""

    async def list_datasets(self) -> Sequence[DatasetEntry]:
        """Return all datasets.

        Raises:
            SettingsError: if the settings of the store are invalid.
            ServiceError: if the store is unavailable.
        """
        ...


class DocumentEntry(NamedTuple):
    """A document in a list."""

    id: str
    name: str
    chunks: int
    metadata: Mapping[str, JsonValue]


class ListedChunk(NamedTuple):
    """A chunk in a list, with its vector; ``()`` if it has none."""

    chunk: Chunk
    vector: Sequence[float]


@runtime_checkable
class DocumentDirectory(Protocol):
    """A dataset store that can list its documents and chunks."""

    async def list_documents(self, dataset: Dataset, start: int, count: int) -> tuple[Sequence[DocumentEntry], int]:
        """Return some of a dataset's documents, sorted by name, and the number of all.

        Raises:
            SettingsError: if the store does not list documents. ServiceError: if it is unavailable.
        """
        ...

    async def list_chunks(
        self, dataset: Dataset, document: str, start: int, count: int
    ) -> tuple[Sequence[ListedChunk], int]:
        """Return some of a document's chunks in order, and the number of all; none of an unknown document.

        Raises:
            SettingsError: if the store does not list chunks. ServiceError: if it is unavailable.
        """
        ...


class Embedder(Protocol):
    """An embedding model: it converts texts to vectors of a fixed length."""

    @property
    def vector_model(self) -> str:
        """The model's name, or ``""`` if it is unknown. Vectors of two models are never compared."""
        ...

    async def embed_question(self, text: str) -> Sequence[float]:
        """Return the vector for a question; an empty one if only keywords should be compared."""
        ...

    async def embed_chunks(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the vectors for chunks, in order."""
        ...


class Embedders(Protocol):
    """Embedding models by the ``embd_id`` of a dataset; ``""`` is the default model."""

    def embedder(self, embedding_model: str) -> Embedder:
        """Return the model, or raise `ragflow_lg.base.errors.SettingsError` naming the missing setting."""
        ...


class Reranker(Protocol):
    """A model that scores chunks against a question."""

    async def scores(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Return a score for each text, in order."""
        ...


class Rerankers(Protocol):
    """Rerankers by ``rerank_id``."""

    def reranker(self, rerank_id: str) -> Reranker:
        """Return the model, or raise `ragflow_lg.base.errors.SettingsError` naming the missing setting."""
        ...
