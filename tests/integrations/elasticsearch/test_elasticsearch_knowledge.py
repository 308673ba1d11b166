from collections.abc import Mapping
from typing import Any

import pytest

from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.integrations.elasticsearch.elasticsearch_knowledge import ElasticsearchKnowledge
from ragflow_lg.integrations.elasticsearch.ranking import list_terms, score_terms
from ragflow_lg.integrations.elasticsearch.term_weights import TermWeights
from ragflow_lg.integrations.elasticsearch.tokenizers import Tokenizer
from ragflow_lg.services.knowledge import DatasetSearch, SearchResult
from tests.fakes.knowledge_models import WordEmbedder, WordEmbedders
from tests.harness.rows import each_row, read_rows
from tests.harness.sample_chunks import chunks_of_tenant


async def search(knowledge: ElasticsearchKnowledge, question: str, *names: str, **changes: Any) -> SearchResult:
    datasets = await knowledge.datasets(names or ("guide",))
    options: dict[str, Any] = {"similarity_threshold": 0.1, **changes}
    return await knowledge.search(DatasetSearch(question, tuple(datasets.values()), **options))


def ids(answer: SearchResult) -> list[Any]:
    return [chunk["chunk_id"] for chunk in answer.chunks]


async def test_datasets_are_found_by_name_or_id(knowledge: ElasticsearchKnowledge) -> None:
    datasets = await knowledge.datasets(["guide", "kb-other", "nothing"])
    assert {key: dataset.id for key, dataset in datasets.items()} == {"guide": "kb-guide", "kb-other": "kb-other"}


async def test_scores_follow_the_formula_of_ragflow(knowledge: ElasticsearchKnowledge) -> None:
    question = "how do I open the bicycle room behind the stairs"
    answer = await search(knowledge, question, keywords_similarity_weight=0.7)
    assert ids(answer)[0] == "c1"
    best = answer.chunks[0]
    row = next(chunk for chunk in chunks_of_tenant("t1") if chunk["id"] == "c1")
    vector = WordEmbedder().vector(question)
    vector_score = (1 + sum(a * b for a, b in zip(vector, row["q_8_vec"], strict=True))) / 2
    keywords = ["open", "bicycl", "room", "behind", "stair"]
    (terms,) = score_terms(keywords, [list_terms(row)], TermWeights(Tokenizer()))
    assert best["vector_similarity"] == pytest.approx(vector_score, abs=2e-6)
    assert best["term_similarity"] == pytest.approx(terms)
    assert best["similarity"] == pytest.approx(0.7 * terms + 0.3 * vector_score, abs=2e-6)
    assert best["content_with_weight"] == row["content_with_weight"]
    assert best["positions"] == [[1, 10, 20, 30, 40]]


@each_row(
    ("names", "changes", "expected"),
    [
        (("guide",), {}, {"c1"}),  # without disabled chunks
        (("guide", "letters"), {}, {"c1", "c6"}),
        (("guide", "letters", "other"), {}, {"c1", "c6", "c7"}),
        (("guide",), {"document_ids": ("doc-laundry.md",)}, {"c3"}),  # a document without the words
        (("guide",), {"document_ids": ()}, set[str]()),
        (("guide",), {"document_ids": ("-999",)}, set[str]()),
    ],
)
async def test_a_search_is_limited_to_its_datasets_and_documents(
    knowledge: ElasticsearchKnowledge, names: tuple[str, ...], changes: dict[str, Any], expected: set[str]
) -> None:
    answer = await search(knowledge, "bicycle room painted", *names, top_n=3, similarity_threshold=0.3, **changes)
    chunk_ids = set(ids(answer))
    assert expected <= chunk_ids
    assert "off" not in chunk_ids
    assert not chunk_ids - expected or "document_ids" not in changes


async def test_the_page_rank_is_added(knowledge: ElasticsearchKnowledge) -> None:
    answer = await search(knowledge, "bicycle room", "guide", "other")
    best: Mapping[str, Any] = answer.chunks[0]
    assert best["chunk_id"] == "c7"
    assert best["similarity"] == pytest.approx(0.5 * best["term_similarity"] + 0.5 * best["vector_similarity"] + 0.5)


async def test_chinese_chunks_and_important_keywords_are_found(knowledge: ElasticsearchKnowledge) -> None:
    assert ids(await search(knowledge, "请问洗衣房在哪里"))[0] == "c5"
    assert ids(await search(knowledge, "warm"))[0] == "c4"


async def test_documents_are_counted_over_all_matches(knowledge: ElasticsearchKnowledge) -> None:
    answer = await search(knowledge, "the bicycle room with the house key and bicycles label", top_n=1)
    assert len(answer.chunks) == 1
    assert answer.documents[0][:2] == ("bikes.md", "doc-bikes.md")
    assert answer.total == sum(document.chunks for document in answer.documents) > 1


async def test_without_words_only_vectors_count(knowledge: ElasticsearchKnowledge) -> None:
    answer = await search(knowledge, "?!", similarity_threshold=0.0)
    assert all(chunk["term_similarity"] == 1.0 for chunk in answer.chunks)
    assert "off" not in ids(answer)


async def test_a_rerank_model_replaces_the_vector_scores(knowledge: ElasticsearchKnowledge) -> None:
    answer = await search(knowledge, "bicycl room stair", rerank_id="words", keywords_similarity_weight=0.0)
    assert ids(answer)[0] == "c1"
    assert answer.chunks[0]["vector_similarity"] == 1.0


async def test_metadata_are_returned_by_key_and_value(knowledge: ElasticsearchKnowledge) -> None:
    datasets = await knowledge.datasets(["guide"])
    assert await knowledge.metadata(tuple(datasets.values())) == {
        "floor": {"0": ["doc-bikes.md"], "-1": ["doc-laundry.md"]},
        "topics": {"bikes": ["doc-bikes.md"], "keys": ["doc-bikes.md"], "laundry": ["doc-laundry.md"]},
    }
    other = await knowledge.datasets(["other"])
    assert await knowledge.metadata(tuple(other.values())) == {}


async def test_parents_replace_their_chunks(knowledge: ElasticsearchKnowledge) -> None:
    answer = await search(knowledge, "quiet hours evening morning", "letters", similarity_threshold=0.3)
    assert ids(answer) == ["rules"]
    assert answer.chunks[0]["content_with_weight"] == "All rules of the house: quiet hours, keys, waste and guests"
    assert answer.chunks[0]["important_kwd"] == ["evening"]
    assert answer.total == 2


HOSTILE = [*read_rows("hostile_questions"), "bicycle " * 5_000, "自行车" * 5_000, "x" * 100_000, "* " * 500]


@each_row("question", HOSTILE)
async def test_questions_cannot_inject_query_syntax(knowledge: ElasticsearchKnowledge, question: str) -> None:
    answer = await search(knowledge, question, similarity_threshold=0.0)
    assert all(chunk["kb_id"] == "kb-guide" for chunk in answer.chunks)
    assert "off" not in ids(answer)


async def test_vectors_of_another_length_are_rejected(
    knowledge: ElasticsearchKnowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knowledge, "_embedders", WordEmbedders(WordEmbedder(16)))
    with pytest.raises(ServiceError, match=r"vector does not fit the index.*embedding_model in \[datasets"):
        await search(knowledge, "bicycle room")


async def test_the_error_names_a_missing_index(knowledge: ElasticsearchKnowledge) -> None:
    datasets = await knowledge.datasets(["guide"])
    unknown = datasets["guide"]._replace(tenant="nobody")
    with pytest.raises(ServiceError, match=r"no such index \[ragflow_nobody\].*tenant in \[datasets"):
        await knowledge.search(DatasetSearch("bicycle", (unknown,)))


async def test_unsupported_options_are_rejected(knowledge: ElasticsearchKnowledge) -> None:
    for option, value, text in (
        ("use_kg", True, "sets use_kg"),
        ("toc_enhance", True, "sets toc_enhance"),
        ("rerank_id", "unknown", "no reranker 'unknown'"),
    ):
        with pytest.raises(SettingsError, match=text):
            await search(knowledge, "bicycle", **{option: value})
