from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ragflow_lg.adapters.knowledge.reranked_knowledge import RerankedKnowledge
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.services.knowledge import Dataset, DatasetSearch, Metadata, Reranker, SearchResult

DATASET = Dataset("ds1", "Manuals")


class _Inner:
    """Returns up to the requested number of chunks; the n-th has the term score n/10."""

    def __init__(self, chunks: int) -> None:
        self._chunks = chunks
        self.searches: list[DatasetSearch] = []

    async def datasets(self, names_or_ids: Sequence[str]) -> Mapping[str, Dataset]:
        return {"Manuals": DATASET}

    async def metadata(self, datasets: Sequence[Dataset]) -> Metadata:
        return {"crop": {"rice": ["d0"]}}

    async def search(self, search: DatasetSearch) -> SearchResult:
        self.searches.append(search)
        return SearchResult(
            tuple(
                {
                    "content_with_weight": str(n),
                    "docnm_kwd": f"d{n % 2}",
                    "doc_id": f"d{n % 2}",
                    "term_similarity": 0.1 * n,
                }
                for n in range(min(self._chunks, search.top_n))
            )
        )


class _Rerankers:
    """Has one model with prepared scores."""

    def __init__(self, scores: Sequence[float] | Exception) -> None:
        self._scores = scores

    def reranker(self, rerank_id: str) -> Reranker:
        if rerank_id != "r":
            raise SettingsError(f"The settings have no rerank model {rerank_id!r}.")
        return self

    async def scores(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        if isinstance(self._scores, Exception):
            raise self._scores
        return self._scores[: len(texts)]


def search(**options: Any) -> DatasetSearch:
    return DatasetSearch("rice", (DATASET,), top_n=2, rerank_id="r", **options)


async def test_the_model_orders_the_chunks_and_documents_are_counted_over_all_of_them() -> None:
    inner = _Inner(4)
    knowledge = RerankedKnowledge(inner, _Rerankers([0.0, 0.9, 0.1, 1.0]))
    result = await knowledge.search(search(similarity_threshold=0.3))
    assert [chunk["content_with_weight"] for chunk in result.chunks] == ["3", "1"]
    assert [chunk["similarity"] for chunk in result.chunks] == pytest.approx([0.65, 0.5])
    assert [chunk["vector_similarity"] for chunk in result.chunks] == [1.0, 0.9]
    assert [(d.name, d.chunks) for d in result.documents] == [("d1", 2)]
    assert result.total == 2
    request = inner.searches[0]
    assert (request.top_n, request.rerank_id, request.similarity_threshold) == (64, "", 0.0)


async def test_without_vectors_the_threshold_does_not_apply() -> None:
    knowledge = RerankedKnowledge(_Inner(2), _Rerankers([0.0, 0.0]))
    assert (await knowledge.search(search(keywords_similarity_weight=1.0, similarity_threshold=0.9))).total == 2


async def test_without_a_rerank_id_or_chunks_the_model_is_not_called() -> None:
    knowledge = RerankedKnowledge(_Inner(1), _Rerankers(ServiceError("down")))
    assert len((await knowledge.search(DatasetSearch("rice", (DATASET,)))).chunks) == 1
    assert (await RerankedKnowledge(_Inner(0), _Rerankers(ServiceError("down"))).search(search())).chunks == ()


async def test_a_failing_or_unknown_model_is_an_error() -> None:
    with pytest.raises(ServiceError, match="down"):
        await RerankedKnowledge(_Inner(1), _Rerankers(ServiceError("down"))).search(search())
    with pytest.raises(SettingsError, match="no rerank model 'x'"):
        await RerankedKnowledge(_Inner(1), _Rerankers([])).search(DatasetSearch("q", (DATASET,), rerank_id="x"))


async def test_datasets_and_metadata_come_from_the_inner_knowledge_base() -> None:
    knowledge = RerankedKnowledge(_Inner(1), _Rerankers([]))
    assert await knowledge.datasets(["Manuals"]) == {"Manuals": DATASET}
    assert await knowledge.metadata([DATASET]) == {"crop": {"rice": ["d0"]}}
