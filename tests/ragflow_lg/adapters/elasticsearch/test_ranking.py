from __future__ import annotations

import pytest

from ragflow_lg.adapters.elasticsearch.ranking import (
    Candidate,
    chunk_terms,
    document_text,
    rank,
    reranked_terms,
    tag_similarity,
    term_similarities,
)
from ragflow_lg.adapters.elasticsearch.term_weights import TermWeights
from ragflow_lg.adapters.elasticsearch.tokenizers import PortableTokenizer

WEIGHTS = TermWeights(PortableTokenizer())


def test_term_similarity_counts_terms_and_neighbourhoods() -> None:
    chunks = [["zorblat", "frimble"], ["frimble", "zorblat"], ["zorblat"], ["other"], []]
    found = term_similarities(["zorblat", "frimble"], chunks, WEIGHTS)
    assert found == pytest.approx([1.0, 0.5714, 0.2857, 0.0, 0.0], abs=5e-5)


def test_without_keywords_every_chunk_fits() -> None:
    assert term_similarities([], [["a"], []], WEIGHTS) == [1.0, 1.0]


FIELDS = {"content_ltks": "a b a", "title_tks": "t u", "important_kwd": ["k l"], "question_tks": "q"}


def test_the_head_of_a_chunk_counts_several_times() -> None:
    assert chunk_terms(FIELDS) == ["a", "b", *["t", "u"] * 2, *["k l"] * 5, *["q"] * 6]
    assert reranked_terms(FIELDS) == ["a", "b", "a", "t", "u", "k l"]
    assert chunk_terms({"content_ltks": None, "important_kwd": "one", "title_tks": ["x y", 3]}) == [
        *["x", "y"] * 2,
        *["one"] * 5,
    ]


def test_a_rerank_model_reads_chinese_without_blanks() -> None:
    assert document_text(["hybrid", "search", "检索", "", "组件", "2024"]) == "hybrid search检索组件2024"


@pytest.mark.parametrize(
    ("asked", "tags", "expected"),
    [({"a": 3, "b": 4}, {"a": 5}, 0.6), ({}, {"a": 1}, 0.0), ({"a": 1}, {}, 0.0), ({"a": 1}, {"b": 1}, 0.0)],
    ids=["shared", "not asked", "not held", "others"],
)
def test_tags_are_alike_by_their_cosine(asked: dict[str, float], tags: dict[str, float], expected: float) -> None:
    assert tag_similarity(asked, tags) == pytest.approx(expected)


def ranked(threshold: float, vector_weight: float, **fields: object) -> list[tuple[str, float]]:
    candidates = [Candidate("a", {}), Candidate("b", fields), Candidate("c", {})]
    found = rank(
        candidates, [0.2, 0.4, 0.2], [0.6, 0.5, 0.6], vector_weight=vector_weight, threshold=threshold, tags={"x": 2.0}
    )
    return [(scored.candidate.id, round(scored.similarity, 6)) for scored in found]


@pytest.mark.parametrize(
    ("threshold", "vector_weight", "fields", "expected"),
    [
        pytest.param(0.0, 0.25, {}, [("b", 0.425), ("a", 0.3), ("c", 0.3)], id="fusion, stable"),
        pytest.param(0.3, 0.25, {}, [("b", 0.425), ("a", 0.3), ("c", 0.3)], id="the threshold itself is enough"),
        pytest.param(0.31, 0.25, {}, [("b", 0.425)], id="threshold"),
        pytest.param(0.31, 0.0, {}, [("b", 0.4), ("a", 0.2), ("c", 0.2)], id="no vectors, no threshold"),
        pytest.param(0.0, 1.0, {"pagerank_fea": 3}, [("b", 3.5), ("a", 0.6), ("c", 0.6)], id="page rank"),
        pytest.param(0.0, 1.0, {"tag_feas": {"x": 1}}, [("b", 10.5), ("a", 0.6), ("c", 0.6)], id="tags"),
        pytest.param(
            0.0,
            1.0,
            {"pagerank_fea": float("nan"), "tag_feas": {"x": "much"}},
            [("a", 0.6), ("c", 0.6), ("b", 0.5)],
            id="features that are none",
        ),
    ],
)
def test_scores_are_fused(
    threshold: float, vector_weight: float, fields: dict[str, object], expected: list[tuple[str, float]]
) -> None:
    assert ranked(threshold, vector_weight, **fields) == expected
