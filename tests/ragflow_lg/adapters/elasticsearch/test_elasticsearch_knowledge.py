"""Searching RAGFlow's index: the same tests on the contract server and on a real Elasticsearch."""

from __future__ import annotations

from typing import Any

import pytest

from ragflow_lg.adapters.elasticsearch.elasticsearch_knowledge import ElasticsearchKnowledge
from ragflow_lg.adapters.elasticsearch.ranking import chunk_terms, term_similarities
from ragflow_lg.adapters.elasticsearch.term_weights import TermWeights
from ragflow_lg.adapters.elasticsearch.tokenizers import PortableTokenizer
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.services.knowledge import DatasetSearch, SearchResult
from tests.fakes.knowledge_models import WordEmbedder, WordEmbedders
from tests.harness.sample_chunks import chunks_of_tenant


async def found(knowledge: ElasticsearchKnowledge, question: str, *names: str, **changes: Any) -> SearchResult:
    held = await knowledge.datasets(names or ("guide",))
    return await knowledge.search(
        DatasetSearch(question, tuple(held.values()), **{"similarity_threshold": 0.1, **changes})
    )


def ids(answer: SearchResult) -> list[Any]:
    return [chunk["chunk_id"] for chunk in answer.chunks]


async def test_names_and_ids_find_datasets(knowledge: ElasticsearchKnowledge) -> None:
    held = await knowledge.datasets(["guide", "kb-other", "nothing"])
    assert {asked: dataset.id for asked, dataset in held.items()} == {"guide": "kb-guide", "kb-other": "kb-other"}


async def test_scores_are_those_of_the_formula(knowledge: ElasticsearchKnowledge) -> None:
    question = "how do I open the bicycle room behind the stairs"
    answer = await found(knowledge, question, keywords_similarity_weight=0.7)
    assert ids(answer)[0] == "c1"
    best = answer.chunks[0]
    row = next(chunk for chunk in chunks_of_tenant("t1") if chunk["id"] == "c1")
    vector = WordEmbedder().vector(question)
    nearness = (1 + sum(a * b for a, b in zip(vector, row["q_8_vec"], strict=True))) / 2
    keywords = ["open", "bicycl", "room", "behind", "stair"]
    (terms,) = term_similarities(keywords, [chunk_terms(row)], TermWeights(PortableTokenizer()))
    assert best["vector_similarity"] == pytest.approx(nearness, abs=2e-6)
    assert best["term_similarity"] == pytest.approx(terms)
    assert best["similarity"] == pytest.approx(0.7 * terms + 0.3 * nearness, abs=2e-6)
    assert best["content_with_weight"] == row["content_with_weight"]
    assert best["positions"] == [[1, 10, 20, 30, 40]]


@pytest.mark.parametrize(
    ("names", "changes", "expected"),
    [
        pytest.param(("guide",), {}, {"c1"}, id="one dataset, not what is switched off"),
        pytest.param(("guide", "letters"), {}, {"c1", "c6"}, id="two datasets"),
        pytest.param(("guide", "letters", "other"), {}, {"c1", "c6", "c7"}, id="two tenants"),
        pytest.param(("guide",), {"document_ids": ("doc-laundry.md",)}, {"c3"}, id="a document without the words"),
        pytest.param(("guide",), {"document_ids": ()}, set(), id="no document"),
        pytest.param(("guide",), {"document_ids": ("-999",)}, set(), id="a document that is not there"),
    ],
)
async def test_only_what_was_asked_for_is_found(
    knowledge: ElasticsearchKnowledge, names: tuple[str, ...], changes: dict[str, Any], expected: set[str]
) -> None:
    answer = await found(knowledge, "bicycle room painted", *names, top_n=3, similarity_threshold=0.3, **changes)
    shown = set(ids(answer))
    assert expected <= shown
    assert "off" not in shown
    assert not shown - expected or "document_ids" not in changes


async def test_a_page_rank_is_added(knowledge: ElasticsearchKnowledge) -> None:
    answer = await found(knowledge, "bicycle room", "guide", "other")
    best = answer.chunks[0]
    assert best["chunk_id"] == "c7"
    assert best["similarity"] == pytest.approx(0.5 * best["term_similarity"] + 0.5 * best["vector_similarity"] + 0.5)


async def test_chinese_is_found(knowledge: ElasticsearchKnowledge) -> None:
    assert ids(await found(knowledge, "请问洗衣房在哪里"))[0] == "c5"


async def test_a_keyword_that_is_important_is_found(knowledge: ElasticsearchKnowledge) -> None:
    assert ids(await found(knowledge, "warm"))[0] == "c4"


async def test_documents_are_counted_over_all_that_fit(knowledge: ElasticsearchKnowledge) -> None:
    answer = await found(knowledge, "the bicycle room with the house key and bicycles label", top_n=1)
    assert len(answer.chunks) == 1
    assert answer.documents[0][:2] == ("bikes.md", "doc-bikes.md")
    assert answer.total == sum(document.chunks for document in answer.documents) > 1


async def test_without_words_vectors_alone_decide(knowledge: ElasticsearchKnowledge) -> None:
    answer = await found(knowledge, "?!", similarity_threshold=0.0)
    assert {chunk["term_similarity"] for chunk in answer.chunks} <= {1.0}
    assert "off" not in ids(answer)


async def test_a_rerank_model_takes_the_place_of_vectors(knowledge: ElasticsearchKnowledge) -> None:
    answer = await found(knowledge, "bicycl room stair", rerank_id="words", keywords_similarity_weight=0.0)
    assert ids(answer)[0] == "c1"
    assert answer.chunks[0]["vector_similarity"] == 1.0


async def test_metadata_are_read(knowledge: ElasticsearchKnowledge) -> None:
    held = await knowledge.datasets(["guide"])
    assert await knowledge.metadata(tuple(held.values())) == {
        "floor": {"0": ["doc-bikes.md"], "-1": ["doc-laundry.md"]},
        "topics": {"bikes": ["doc-bikes.md"], "keys": ["doc-bikes.md"], "laundry": ["doc-laundry.md"]},
    }
    other = await knowledge.datasets(["other"])
    assert await knowledge.metadata(tuple(other.values())) == {}


async def test_parents_take_the_place_of_their_chunks(knowledge: ElasticsearchKnowledge) -> None:
    answer = await found(knowledge, "quiet hours evening morning", "letters", similarity_threshold=0.3)
    assert ids(answer) == ["rules"]
    assert answer.chunks[0]["content_with_weight"] == "All rules of the house: quiet hours, keys, waste and guests"
    assert answer.chunks[0]["important_kwd"] == ["evening"]
    assert answer.total == 2


HOSTILE = [
    'title_tks:* OR kb_id:"kb-other" what else can there be',
    "bicycle) OR (kb_id:kb-other AND available_int:0) AND (x",
    'a "b" c \\" d ~2 ^9 e && f || !g +h -i {j TO k} [l TO m] <n> =o /p.*/ q? r*',
    "'; DROP INDEX; -- AND OR NOT TO bicycle room now",
    "_exists_:kb_id _exists_:kb_id _exists_:kb_id _exists_:kb_id",
    "\\",
    '"',
    "велосипед где находится комната для дома",
    "自行车\u0000房 🚲 ｂｉｃｙｃｌｅ　ｒｏｏｍ",
    "שלום עולם مرحبا بالعالم नमस्ते दुनिया",
    "\ud800 lone",
    "bicycle " * 5_000,
    "自行车" * 5_000,
    "x" * 100_000,
    "* " * 500,
]


@pytest.mark.parametrize("question", HOSTILE, ids=[f"hostile{number}" for number in range(len(HOSTILE))])
async def test_no_question_reaches_the_grammar(knowledge: ElasticsearchKnowledge, question: str) -> None:
    answer = await found(knowledge, question, similarity_threshold=0.0)
    assert {chunk["kb_id"] for chunk in answer.chunks} <= {"kb-guide"}
    assert "off" not in ids(answer)


async def test_vectors_of_another_length_are_refused(knowledge: ElasticsearchKnowledge) -> None:
    knowledge._embedders = WordEmbedders(WordEmbedder(16))
    with pytest.raises(ServiceError, match=r"vector does not fit the index.*embedding_model of \[datasets"):
        await found(knowledge, "bicycle room")


async def test_a_missing_index_is_named(knowledge: ElasticsearchKnowledge) -> None:
    held = await knowledge.datasets(["guide"])
    lost = held["guide"]._replace(tenant="nobody")
    with pytest.raises(ServiceError, match=r"no such index \[ragflow_nobody\].*tenant of \[datasets"):
        await knowledge.search(DatasetSearch("bicycle", (lost,)))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"use_kg": True}, "sets use_kg"),
        ({"toc_enhance": True}, "sets toc_enhance"),
        ({"rerank_id": "unknown"}, "no reranker 'unknown'"),
    ],
    ids=["use_kg", "toc_enhance", "rerank_id"],
)
async def test_what_is_not_possible_is_refused(
    knowledge: ElasticsearchKnowledge, changes: dict[str, Any], text: str
) -> None:
    with pytest.raises(SettingsError, match=text):
        await found(knowledge, "bicycle", **changes)
