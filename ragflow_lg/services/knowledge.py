"""Search in datasets: values and Protocols only.

Source: RAGFlow's ``agent/tools/retrieval.py`` and ``rag/nlp/search.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from msgspec import Struct

from ragflow_lg.services.references import Chunk

Metadata: TypeAlias = Mapping[str, Mapping[str, Sequence[str]]]
"""``{key: {value as text: document ids}}``: the metadata of all documents of some datasets."""


class Dataset(NamedTuple):
    """A dataset. ``embedding_model`` is RAGFlow's ``embd_id``, for example ``bge-m3@SILICONFLOW``."""

    id: str
    name: str
    embedding_model: str = ""
    tenant: str = ""


class DatasetSearch(Struct, frozen=True):
    """One search. The weight of the vectors is ``1 - keywords_similarity_weight``.

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
    """The number of matching chunks of one document."""

    name: str
    id: str
    chunks: int


class SearchResult(Struct, frozen=True):
    """The best ``top_n`` chunks of a search, best first, with RAGFlow's field names.

    ``documents`` counts all chunks above the threshold, not only ``chunks``, highest count first. ``total`` is their
    number.
    """

    chunks: tuple[Chunk, ...] = ()
    documents: tuple[DocumentCount, ...] = ()
    total: int = 0


class Knowledge(Protocol):
    """A store of datasets.

    Every method raises `ragflow_lg.base.errors.ServiceError` on failure.
    """

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        """Return datasets by the requested name or id. A name takes precedence over an id; unknown ones are omitted."""
        ...

    async def search(self, search: DatasetSearch) -> SearchResult:
        """Search datasets, which share one embedding model.

        Raises:
            SettingsError: for an unsupported option (``rerank_id``, ``toc_enhance``, ``use_kg``), by name.
            ServiceError: if the store is unavailable, too slow, or returns an unusable answer; never an empty result
                instead.
        """
        ...

    async def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        """Return the metadata of all documents, for ``meta_data_filter``."""
        ...


class Embedder(Protocol):
    """An embedding model: texts to vectors of one length."""

    @property
    def name(self) -> str:
        """The display name: the model, or that it is a stand-in."""
        ...

    @property
    def is_stand_in(self) -> bool:
        """Whether the vectors reflect words only, not meaning."""
        ...

    async def embed_question(self, text: str) -> Sequence[float]:
        """Return the vector of a question."""
        ...

    async def embed_chunks(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the vectors of chunks, in order."""
        ...


class Embedders(Protocol):
    """Embedding models by the ``embd_id`` of a dataset; ``""`` is the default model."""

    def embedder(self, embedding_model: str) -> Embedder:
        """Return the model, or raise `ragflow_lg.base.errors.SettingsError` with the missing setting."""
        ...


class Reranker(Protocol):
    """A model that scores chunks against a question."""

    async def scores(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Return a score for each text, in order."""
        ...


class Rerankers(Protocol):
    """Rerankers by ``rerank_id``."""

    def reranker(self, rerank_id: str) -> Reranker:
        """Return the model, or raise `ragflow_lg.base.errors.SettingsError` with the missing setting."""
        ...
