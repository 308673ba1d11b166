"""How many candidates a search looks at, and how the scores of a rerank model are read.

Source: RAGFlow's ``rag/nlp/search.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["normalised_scores", "window_size"]

_MIN_SPREAD = 0.001
_WINDOW = 64
_WINDOW_OF_ONE = 30


def window_size(top_n: int, top_k: int, *, is_reranked: bool = False) -> int:
    """Give how many candidates the first request asks for.

    >>> window_size(8, 1024), window_size(6, 1024), window_size(1, 1024), window_size(8, 20, is_reranked=True)
    (64, 66, 30, 24)
    """
    if top_n <= 1:
        return min(_WINDOW_OF_ONE, top_k) if is_reranked else _WINDOW_OF_ONE
    size = math.ceil(_WINDOW / top_n) * top_n
    return min(size, math.ceil(top_k / top_n) * top_n) if is_reranked else size


def normalised_scores(scores: Sequence[float]) -> list[float]:
    """Bring the scores of a rerank model into 0..1, where they are not.

    >>> normalised_scores([-2.0, 0.0, 2.0]), normalised_scores([0.2, 0.9]), normalised_scores([3.0, 3.0])
    ([0.0, 0.5, 1.0], [0.2, 0.9], [1.0, 1.0])
    """
    if not scores or (min(scores) >= 0 and max(scores) <= 1):
        return list(scores)
    lowest, spread = min(scores), max(scores) - min(scores)
    if spread < _MIN_SPREAD:
        return [min(max(score, 0.0), 1.0) for score in scores]
    return [(score - lowest) / spread for score in scores]
