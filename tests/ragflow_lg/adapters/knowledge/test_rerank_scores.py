import pytest

from ragflow_lg.adapters.knowledge.rerank_scores import compute_window_size, normalize_scores


@pytest.mark.parametrize(
    ("top_n", "top_k", "is_reranked", "expected"),
    [
        (8, 1024, False, 64),
        (6, 1024, False, 66),
        (1, 1024, False, 30),
        (100, 10, False, 100),
        (8, 20, True, 24),
        (1, 9, True, 9),
    ],
)
def test_the_window_size_equals_that_of_ragflow(top_n: int, top_k: int, is_reranked: bool, expected: int) -> None:
    assert compute_window_size(top_n, top_k, is_reranked=is_reranked) == expected


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.1, 0.9], [0.1, 0.9]),
        ([-1.0, 1.0, 3.0], [0.0, 0.5, 1.0]),
        ([7.0, 7.0005], [1.0, 1.0]),
        ([-3.0], [0.0]),
        ([], []),
    ],
    ids=["within", "beyond", "alike", "one", "none"],
)
def test_scores_are_scaled_to_0_and_1(scores: list[float], expected: list[float]) -> None:
    assert normalize_scores(scores) == expected
