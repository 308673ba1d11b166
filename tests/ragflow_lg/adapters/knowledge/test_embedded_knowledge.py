import asyncio
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.services.knowledge import DatasetSearch, DocumentCount
from tests.fakes.embedded import CountingEmbedder, fill, stored_knowledge

DOCUMENTS = {
    "leave.md": ["Everybody has 27 days of vacation.", "Sick days are no vacation."],
    "travel.md": ["Hotels may cost 140 euros."],
    "zh.md": ["员工每年有十五天带薪年假。"],
}


async def search(tmp_path: Path, question: str, embedder: Any = None, fusion: Any = "weighted", **options: Any) -> Any:
    knowledge = stored_knowledge(tmp_path / "k.db", embedder, fusion=fusion)
    fill(knowledge, "handbook", DOCUMENTS)
    datasets = await knowledge.datasets(["handbook"])
    try:
        return await knowledge.search(DatasetSearch(question, tuple(datasets.values()), **options))
    finally:
        knowledge.close()


async def test_chunks_have_the_fields_of_ragflow(tmp_path: Path) -> None:

    result = await search(tmp_path, "How many days of vacation?")
    chunk = dict(result.chunks[0])
    scores = [chunk.pop(name) for name in ("similarity", "term_similarity", "vector_similarity")]
    assert scores[0] == pytest.approx((scores[1] + scores[2]) / 2)
    assert len(str(chunk.pop("chunk_id"))) == len(str(chunk.pop("doc_id"))) == len(str(chunk.pop("kb_id"))) == 32
    assert chunk == {
        "content_with_weight": DOCUMENTS["leave.md"][0],
        "docnm_kwd": "leave.md",
        "important_kwd": [],
        "tag_kwd": [],
        "image_id": "",
        "positions": [[0, 0, 0, 1, 1]],
        "doc_type_kwd": "",
        "mom_id": "",
    }


async def test_documents_are_counted_over_all_chunks_that_reach_the_threshold(tmp_path: Path) -> None:

    result = await search(tmp_path, "vacation days", top_n=1)
    assert len(result.chunks) == 1
    assert result.total == 2
    assert result.documents == (DocumentCount("leave.md", result.chunks[0]["doc_id"], 2),)
    assert (await search(tmp_path / "2", "vacation days", similarity_threshold=0.99)).total == 0


@pytest.mark.parametrize("fusion", ["weighted", "rrf"])
@pytest.mark.parametrize(("question", "best"), [("年假有多少天", "zh.md"), ("price of hotels", "travel.md")])
async def test_the_best_document_is_first(tmp_path: Path, fusion: str, question: str, best: str) -> None:
    assert (await search(tmp_path, question, fusion=fusion)).chunks[0]["docnm_kwd"] == best


async def test_a_search_without_matches_returns_nothing(tmp_path: Path) -> None:
    assert (await search(tmp_path, "zebra")).chunks == ()
    assert (await search(tmp_path / "2", "vacation", document_ids=())).chunks == ()


async def test_chunks_of_named_documents_are_returned_even_without_matches(tmp_path: Path) -> None:
    knowledge = stored_knowledge(tmp_path / "k.db")
    fill(knowledge, "handbook", DOCUMENTS)
    (dataset,) = (await knowledge.datasets(["handbook"])).values()
    ids = tuple((await knowledge.metadata([dataset]))["kind"]["a"])
    assert len(ids) == 3

    result = await knowledge.search(DatasetSearch("zebra", (dataset,), document_ids=ids[:1]))
    assert result.chunks
    assert all(chunk["doc_id"] == ids[0] for chunk in result.chunks)


async def test_words_have_a_minimum_weight_without_a_real_embedding_model(tmp_path: Path) -> None:
    by_words = await search(tmp_path, "vacation", keywords_similarity_weight=0.0)
    chunk = by_words.chunks[0]
    assert chunk["similarity"] == pytest.approx((chunk["term_similarity"] + chunk["vector_similarity"]) / 2)
    by_vector = await search(tmp_path / "2", "vacation", CountingEmbedder(), keywords_similarity_weight=0.0)
    assert by_vector.chunks[0]["similarity"] == by_vector.chunks[0]["vector_similarity"]


async def test_datasets_with_different_embedding_models_cannot_be_searched_together(tmp_path: Path) -> None:
    knowledge = stored_knowledge(tmp_path / "k.db")
    fill(knowledge, "one", {"a.md": ["cats sleep"]}, "m")
    fill(knowledge, "two", {"b.md": ["cats eat"]}, "m")
    fill(knowledge, "three", {"c.md": ["cats run"]}, "other")
    every = await knowledge.datasets(["one", "two", "three", "none"])
    assert list(every) == ["one", "two", "three"]

    result = await knowledge.search(DatasetSearch("cats", (every["one"], every["two"])))
    assert sorted(str(chunk["docnm_kwd"]) for chunk in result.chunks) == ["a.md", "b.md"]
    with pytest.raises(SettingsError, match="'three' uses 'other'"):
        await knowledge.search(DatasetSearch("cats", tuple(every.values())))


class ShortEmbedder(CountingEmbedder):
    async def embed_question(self, text: str) -> list[float]:
        return [1.0, 2.0]


class OtherEmbedder(CountingEmbedder):
    vector_model = "other"


async def test_vectors_of_another_model_are_never_compared(tmp_path: Path) -> None:
    """They have the same length."""
    with pytest.raises(ServiceError, match=r"'handbook' has vectors of the embedding model .* those of 'other'"):
        await search(tmp_path, "vacation", OtherEmbedder())


async def test_vectors_of_another_length_are_an_error_that_names_the_dataset(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match=r"'handbook' has vectors of 384 numbers.*now returns 2\."):
        await search(tmp_path, "vacation", ShortEmbedder())


@pytest.mark.parametrize(
    "option", [{"rerank_id": "r"}, {"toc_enhance": True}, {"use_kg": True}], ids=["rerank_id", "toc_enhance", "use_kg"]
)
async def test_unsupported_options_are_rejected_by_name(tmp_path: Path, option: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(option))):
        await search(tmp_path, "vacation", **option)


async def test_reading_does_not_create_a_file(tmp_path: Path) -> None:
    knowledge = stored_knowledge(tmp_path / "k.db")
    assert await knowledge.datasets(["d"]) == {}
    assert await knowledge.search(DatasetSearch("q", ())) is not None
    assert list(tmp_path.iterdir()) == []


async def test_a_deleted_dataset_is_an_error(tmp_path: Path) -> None:
    knowledge = stored_knowledge(tmp_path / "k.db")
    fill(knowledge, "d", {"a.md": ["x"]})
    (dataset,) = (await knowledge.datasets(["d"])).values()
    with pytest.raises(ServiceError, match="no longer in the knowledge base"):
        await knowledge.search(DatasetSearch("q", (dataset._replace(id="none"),)))
    knowledge.database.path.unlink()
    with pytest.raises(ServiceError, match="does not exist"):
        await knowledge.search(DatasetSearch("q", (dataset,)))


async def test_concurrent_searches_return_the_same_result(tmp_path: Path) -> None:
    knowledge = stored_knowledge(tmp_path / "k.db")
    fill(knowledge, "handbook", DOCUMENTS)
    (dataset,) = (await knowledge.datasets(["handbook"])).values()
    every = await asyncio.gather(*(knowledge.search(DatasetSearch("vacation", (dataset,))) for _ in range(20)))
    assert {result.total for result in every} == {2}
