import pytest

from ragflow_lg.adapters.elasticsearch.ranking import (
    Candidate,
    join_terms,
    list_rerank_terms,
    list_terms,
    rank,
    score_terms,
)
from ragflow_lg.adapters.elasticsearch.term_weights import TermWeights
from ragflow_lg.adapters.elasticsearch.tokenizers import PortableTokenizer
from ragflow_lg.base.values import JsonValue

WEIGHTS = TermWeights(PortableTokenizer())


def test_term_scores_count_terms_and_pairs_of_terms() -> None:
    chunks = [["zorblat", "frimble"], ["frimble", "zorblat"], ["zorblat"], ["other"], []]
    scores = score_terms(["zorblat", "frimble"], chunks, WEIGHTS)
    assert scores == pytest.approx([1.0, 0.5714, 0.2857, 0.0, 0.0], abs=5e-5)


def test_without_keywords_every_chunk_has_the_full_score() -> None:
    assert score_terms([], [["a"], []], WEIGHTS) == [1.0, 1.0]


FIELDS: dict[str, JsonValue] = {
    "content_ltks": "a b a",
    "title_tks": "t u",
    "important_kwd": ["k l"],
    "question_tks": "q",
}


def test_title_keywords_and_questions_count_several_times() -> None:
    assert list_terms(FIELDS) == ["a", "b", *["t", "u"] * 2, *["k l"] * 5, *["q"] * 6]
    assert list_rerank_terms(FIELDS) == ["a", "b", "a", "t", "u", "k l"]
    assert list_terms({"content_ltks": None, "important_kwd": "one", "title_tks": ["x y", 3]}) == [
        *["x", "y"] * 2,
        *["one"] * 5,
    ]


def test_terms_are_joined_without_blanks_around_chinese() -> None:
    assert join_terms(["hybrid", "search", "检索", "", "组件", "2024"]) == "hybrid search检索组件2024"


def rank_with(threshold: float, vector_weight: float, **fields: JsonValue) -> list[tuple[str, float]]:
    candidates = [Candidate("a", {}), Candidate("b", fields), Candidate("c", {})]
    chunks = rank(candidates, [0.2, 0.4, 0.2], [0.6, 0.5, 0.6], vector_weight=vector_weight, threshold=threshold)
    return [(scored.candidate.id, round(scored.similarity, 6)) for scored in chunks]


@pytest.mark.parametrize(
    ("threshold", "vector_weight", "fields", "expected"),
    [
        pytest.param(0.0, 0.25, {}, [("b", 0.425), ("a", 0.3), ("c", 0.3)], id="fusion, stable"),
        pytest.param(0.3, 0.25, {}, [("b", 0.425), ("a", 0.3), ("c", 0.3)], id="equal to the threshold"),
        pytest.param(0.31, 0.25, {}, [("b", 0.425)], id="threshold"),
        pytest.param(0.31, 0.0, {}, [("b", 0.4), ("a", 0.2), ("c", 0.2)], id="no vectors, no threshold"),
        pytest.param(0.0, 1.0, {"pagerank_fea": 3}, [("b", 3.5), ("a", 0.6), ("c", 0.6)], id="page rank"),
        pytest.param(
            0.0, 1.0, {"pagerank_fea": float("nan")}, [("a", 0.6), ("c", 0.6), ("b", 0.5)], id="invalid page rank"
        ),
    ],
)
def test_scores_are_combined(
    threshold: float, vector_weight: float, fields: dict[str, JsonValue], expected: list[tuple[str, float]]
) -> None:
    assert rank_with(threshold, vector_weight, **fields) == expected
