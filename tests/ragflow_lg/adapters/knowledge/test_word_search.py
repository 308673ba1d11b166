import time
from pathlib import Path

import numpy as np
import pytest

from ragflow_lg.adapters.knowledge.hits import (
    WordSearch,
    cosine_scores,
    reciprocal_ranks,
    weighted_sum,
    word_scores,
)
from ragflow_lg.adapters.knowledge.words import extract_question_words
from tests.fakes.embedded import fill, stored_knowledge
from tests.harness.rows import each_row

TEXTS = ["the cat sat", "the dog sat", "年假十五天", "the bird"]


def search(tmp_path: Path, question: str, *, documents: list[int] | None = None) -> dict[int, float]:
    knowledge = stored_knowledge(tmp_path / "k.db")
    fill(knowledge, "d", {"a.md": TEXTS[:2], "b.md": TEXTS[2:]})
    with knowledge.database.reading() as connection:
        chunks, scores = WordSearch(connection, 1, extract_question_words(question)).best(10, documents)
    return dict(zip(chunks.tolist(), scores.tolist(), strict=True))


@pytest.mark.parametrize(
    ("question", "chunks"),
    [
        ("cat", {1}),
        ("sat cat", {1, 2}),
        ("请问年假有几天", {3}),
        ("b", {3, 4}),
        ("zebra", set[int]()),
        ("", set[int]()),
        ('"cat" OR (dog NEAR(', {1, 2}),
        ("title:cat* ^sat -dog", {1, 2}),
        ("'; DROP TABLE chunks; --", set[int]()),
        ('c"a"t {dog} \\ % _ \x00', {2}),
        ("🙂 ﷺ ก็ \ud800", set[int]()),
    ],
    ids=["word", "words", "chinese", "title", "unknown", "empty", "operators", "columns", "sql", "signs", "odd"],
)
def test_questions_cannot_contain_operators(tmp_path: Path, question: str, chunks: set[int]) -> None:
    assert set(search(tmp_path, question)) == chunks


def test_a_chunk_with_all_words_is_best_and_has_a_score_near_1(tmp_path: Path) -> None:
    scores = search(tmp_path, "cat sat")
    assert list(scores) == [1, 2]
    assert 0.9 < scores[1] <= 1.0
    assert scores[2] < 0.5


def test_unknown_words_lower_the_score(tmp_path: Path) -> None:
    assert search(tmp_path, "cat zebra")[1] == pytest.approx(search(tmp_path / "2", "cat")[1] / 2, abs=0.1)


def test_the_search_can_be_limited_to_documents(tmp_path: Path) -> None:
    assert search(tmp_path, "sat", documents=[2]) == {}
    assert set(search(tmp_path / "2", "sat bird", documents=[2])) == {4}


def test_a_huge_question_is_answered_quickly(tmp_path: Path) -> None:
    start = time.process_time()
    assert 1 in search(tmp_path, "cat " * 300_000 + '"' * 100_000)
    assert time.process_time() - start < 5


@each_row(("cosine", "score"), [(-1.0, 0.0), (0.0, 0.5), (0.2, 0.6), (1.0, 1.0), (1.5, 1.0)])
def test_cosines_are_scaled_like_in_elasticsearch(cosine: float, score: float) -> None:
    assert cosine_scores([cosine])[0] == pytest.approx(score)


@pytest.mark.parametrize(("bm25", "score"), [(-1.0, 0.0), (1.5, 0.5), (3.0, 1.0), (9.0, 1.0)])
def test_bm25_is_divided_by_the_weight_of_all_words(bm25: float, score: float) -> None:
    assert word_scores([bm25], [1.0, 2.0])[0] == score


def test_without_words_the_scores_are_0() -> None:
    assert word_scores([1.0], []).tolist() == [0.0]


def test_the_weighted_sum_equals_that_of_ragflow() -> None:
    assert weighted_sum(np.array([0.4]), np.array([0.8]), 0.7)[0] == pytest.approx(0.7 * 0.4 + 0.3 * 0.8)


def test_reciprocal_ranks_are_added() -> None:
    scores = reciprocal_ranks([np.array([0.9, 0.5, 0.0]), np.array([0.1, 0.7, 0.3])])
    assert scores.tolist() == pytest.approx([1 / 61 + 1 / 63, 1 / 62 + 1 / 61, 1 / 62])


def test_only_the_first_ranks_count() -> None:
    assert reciprocal_ranks([np.arange(5.0, 0.0, -1.0)], window=2).tolist() == pytest.approx([1 / 61, 1 / 62, 0, 0, 0])
