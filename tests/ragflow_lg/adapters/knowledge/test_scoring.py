from __future__ import annotations

import numpy as np
import pytest

from ragflow_lg.adapters.knowledge.scoring import cosine_scores, reciprocal_ranks, weighted_sum, word_scores


@pytest.mark.parametrize(("cosine", "score"), [(-1.0, 0.0), (0.0, 0.5), (0.2, 0.6), (1.0, 1.0), (1.5, 1.0)])
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
