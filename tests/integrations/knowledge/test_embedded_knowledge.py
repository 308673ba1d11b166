from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.knowledge.embedders import LOCAL_MODEL, LocalEmbedder, NoEmbedder
from ragflow_lg.adapters.knowledge.file_chunks import TextChunk
from ragflow_lg.adapters.knowledge.words import MAX_QUESTION_WORDS, extract_question_words, split_words
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.integrations.knowledge import embedded_knowledge
from ragflow_lg.integrations.knowledge.embedded_knowledge import score_words
from ragflow_lg.integrations.knowledge.knowledge_file import NewDocument, add_dataset, delete_document, store_document
from ragflow_lg.services.knowledge import DatasetSearch, DocumentCount
from tests.fakes.embedded import CountingEmbedder, fill, stored_knowledge
from tests.harness.rows import each_row, read_rows

DOCUMENTS = {
    "leave.md": ["Everybody has 27 days of vacation.", "Sick days are no vacation."],
    "travel.md": ["Hotels may cost 140 euros."],
    "zh.md": ["员工每年有十五天带薪年假。"],
}


async def search(tmp_path: Path, question: str, embedder: Any = None, **options: Any) -> Any:
    knowledge = stored_knowledge(tmp_path / "k.db", embedder)
    if not knowledge.file.exists:
        fill(knowledge, "handbook", DOCUMENTS)
    datasets = await knowledge.datasets(["handbook"])
    return await knowledge.search(DatasetSearch(question, tuple(datasets.values()), **options))


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


async def test_the_best_document_is_first_and_all_above_the_threshold_are_counted(tmp_path: Path) -> None:
    result = await search(tmp_path, "vacation days", top_n=1)
    assert (len(result.chunks), result.total) == (1, 2)
    assert result.documents == (DocumentCount("leave.md", result.chunks[0]["doc_id"], 2),)
    assert (await search(tmp_path, "vacation days", similarity_threshold=0.99)).total == 0
    for question, best in (("年假有多少天", "zh.md"), ("price of hotels", "travel.md")):
        assert (await search(tmp_path, question)).chunks[0]["docnm_kwd"] == best
    assert (await search(tmp_path, "zebra")).chunks == ()
    assert (await search(tmp_path, "vacation", document_ids=())).chunks == ()


async def test_chunks_of_named_documents_are_returned_even_without_matches(tmp_path: Path) -> None:
    knowledge = stored_knowledge(tmp_path / "k.db")
    fill(knowledge, "handbook", DOCUMENTS)
    (dataset,) = (await knowledge.datasets(["handbook"])).values()
    ids = tuple((await knowledge.metadata([dataset]))["kind"]["a"])
    assert len(ids) == 3

    result = await knowledge.search(DatasetSearch("zebra", (dataset,), document_ids=ids[:1]))
    assert result.chunks
    assert all(chunk["doc_id"] == ids[0] for chunk in result.chunks)


async def test_keywords_have_a_minimum_weight_with_the_local_model(tmp_path: Path) -> None:
    knowledge = stored_knowledge(tmp_path / "k.db", LocalEmbedder())
    with knowledge.file.writing() as connection:
        record = add_dataset(connection, "notes", LOCAL_MODEL)
        vectors = await LocalEmbedder().embed_chunks(["a red car"])
        document = NewDocument("a.md", "/a.md", "1", {}, [TextChunk("a red car", [])])
        store_document(connection, record, document, vectors, LOCAL_MODEL)
    datasets = tuple((await knowledge.datasets(["notes"])).values())
    found: Any = (await knowledge.search(DatasetSearch("car", datasets, keywords_similarity_weight=0.0))).chunks
    (chunk,) = found
    assert chunk["similarity"] == pytest.approx(0.3 * chunk["term_similarity"] + 0.7 * chunk["vector_similarity"])


async def test_only_keywords_count_if_the_question_has_no_vector(tmp_path: Path) -> None:
    """Also in a dataset that has vectors."""
    by_vector = await search(tmp_path, "vacation", keywords_similarity_weight=0.0)
    assert by_vector.chunks[0]["similarity"] == by_vector.chunks[0]["vector_similarity"]
    by_words = await search(
        tmp_path, "vacation", NoEmbedder(), keywords_similarity_weight=0.0, similarity_threshold=0.9
    )
    assert [chunk["docnm_kwd"] for chunk in by_words.chunks] == ["leave.md", "leave.md"]
    assert all(c["similarity"] == c["term_similarity"] and not c["vector_similarity"] for c in by_words.chunks)
    assert not (await search(tmp_path, "zebra", NoEmbedder(), similarity_threshold=0.0)).chunks


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


async def test_vectors_of_another_model_or_length_are_never_compared(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match=r"'handbook' has vectors of the embedding model .* those of 'other'"):
        await search(tmp_path, "vacation", OtherEmbedder())
    with pytest.raises(ServiceError, match=r"'handbook' has vectors .* with 384 numbers.* with 2\."):
        await search(tmp_path, "vacation", ShortEmbedder())


@each_row("option", [{"rerank_id": "r"}, {"toc_enhance": True}, {"use_kg": True}])
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
    knowledge.file.path.unlink()
    with pytest.raises(ServiceError, match="does not exist"):
        await knowledge.search(DatasetSearch("q", (dataset,)))


async def test_the_vectors_are_read_again_after_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if another file takes the place of this one, and if few vectors stay in memory."""
    monkeypatch.setattr(embedded_knowledge, "MAX_CACHED_BYTES", 0)
    knowledge = stored_knowledge(tmp_path / "k.db")
    for name in ("a", "b"):
        fill(knowledge, name, {"a.md": ["cats sleep", "cats eat"], "b.md": ["cats run"]})
    datasets = [*(await knowledge.datasets(["a", "b"])).values()]

    async def count() -> list[int]:
        return [(await knowledge.search(DatasetSearch("cats", (dataset,)))).total for dataset in datasets]

    assert await count() == [3, 3]
    with knowledge.file.writing() as connection:
        delete_document(connection, 1, "a.md")
    assert await count() == [1, 3]
    for file in tmp_path.iterdir():
        file.unlink()
    for name in ("a", "b"):
        fill(knowledge, name, {"a.md": ["cats sleep"]})
    assert await count() == [1, 1]


async def test_candidates_are_limited_by_words_or_the_nearest_vectors(tmp_path: Path) -> None:
    every = await search(tmp_path, "zebra", CountingEmbedder(), similarity_threshold=0.0)
    assert every.total == 4
    assert (await search(tmp_path, "zebra", CountingEmbedder(), similarity_threshold=0.0, top_k=2)).total == 2
    assert (await search(tmp_path, "vacation", CountingEmbedder(), similarity_threshold=0.0, top_k=1)).total == 2


def find_words(tmp_path: Path, question: str) -> dict[int, float]:
    knowledge = stored_knowledge(tmp_path / "words.db")
    if not knowledge.file.exists:
        fill(knowledge, "d", {"a.md": ["the cat sat", "the dog sat"], "b.md": ["年假十五天", "the bird"]})
    with knowledge.file.reading() as connection:
        chunks, scores = score_words(connection, 1, extract_question_words(question))
    return dict(zip(chunks.tolist(), scores.tolist(), strict=True))


@each_row(
    ("question", "chunks"),
    [
        ("cat", {1}),
        ("sat cat", {1, 2}),
        ("请问年假有几天", {3}),
        ("b", {3, 4}),  # of the document's name
        ("zebra", set[int]()),
        ("", set[int]()),
        ('"cat" OR (dog NEAR(', {1, 2}),
        ("title:cat* ^sat -dog", {1, 2}),
        ("'; DROP TABLE chunks; --", set[int]()),
        ('c"a"t {dog} \\ % _ \x00', {2}),
        ("🙂 ﷺ ก็ \ud800", set[int]()),
    ],
)
def test_questions_cannot_contain_operators(tmp_path: Path, question: str, chunks: set[int]) -> None:
    assert set(find_words(tmp_path, question)) == chunks


def test_a_chunk_with_all_words_has_a_score_near_1_and_unknown_words_lower_it(tmp_path: Path) -> None:
    scores = find_words(tmp_path, "cat sat")
    assert 0.9 < scores[1] <= 1.0
    assert scores[2] < 0.5
    assert find_words(tmp_path, "cat zebra")[1] == pytest.approx(find_words(tmp_path, "cat")[1] / 2, abs=0.1)


@each_row(("text", "words"), read_rows("words_of_text"))
def test_texts_of_every_script_are_split(text: str, words: list[str]) -> None:
    assert split_words(text) == words


def test_a_question_of_only_function_words_keeps_them() -> None:
    assert extract_question_words("What is it?") == ["what", "is", "it"]
    assert extract_question_words("什么") == ["什么"]


def test_the_words_of_a_huge_question_are_limited() -> None:
    assert len(extract_question_words(" ".join(f"w{i}" for i in range(100_000)))) == MAX_QUESTION_WORDS
    assert len(extract_question_words("x" * 1_000_000)[0]) == 64
