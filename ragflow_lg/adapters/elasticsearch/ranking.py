"""How well chunks fit a question, and their order.

Source: RAGFlow's ``rag/nlp/search.py`` and ``rag/nlp/query.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

from msgspec import Struct

from ragflow_lg.adapters.elasticsearch.term_weights import TermWeights
from ragflow_lg.base.values import JsonValue

__all__ = [
    "Candidate",
    "Scored",
    "chunk_terms",
    "document_text",
    "rank",
    "reranked_terms",
    "tag_similarity",
    "term_similarities",
]

_TINY = 1e-9
_TAG_FACTOR = 10


class Candidate(Struct, frozen=True):
    """A chunk that the first request found, with what its score is made of."""

    id: str
    fields: Mapping[str, JsonValue]


class Scored(Struct, frozen=True):
    """A candidate with its scores, all of them as RAGFlow gives them."""

    candidate: Candidate
    similarity: float
    term_similarity: float
    vector_similarity: float


def term_similarities(keywords: Sequence[str], chunks: Sequence[Sequence[str]], weights: TermWeights) -> list[float]:
    """Give how much of the question's terms, and of their neighbourhoods, each chunk has: from 0 to 1."""
    asked = _shares(keywords, weights)
    whole = _TINY + sum(asked.values())
    found: list[float] = []
    for terms in chunks:
        held = _shares(terms, weights)
        found.append((_TINY + sum(share for key, share in asked.items() if key in held)) / whole)
    return found


def _shares(terms: Sequence[str], weights: TermWeights) -> dict[str, float]:
    shares: dict[str, float] = {}
    weighed = weights.of_terms(terms)
    for at, (term, weight) in enumerate(weighed):
        shares[term] = shares.get(term, 0.0) + 0.4 * weight
        if at + 1 < len(weighed):
            neighbour, other = weighed[at + 1]
            shares[term + neighbour] = shares.get(term + neighbour, 0.0) + 0.6 * max(weight, other)
    return shares


def chunk_terms(fields: Mapping[str, JsonValue]) -> list[str]:
    """Give the terms of a chunk as they count without a rerank model: each of the content once, its head several times.

    >>> chunk_terms({"content_ltks": "a b a", "title_tks": "t", "important_kwd": ["k"], "question_tks": ""})
    ['a', 'b', 't', 't', 'k', 'k', 'k', 'k', 'k']
    """
    content = list(dict.fromkeys(_words(fields.get("content_ltks"))))
    title, keywords = _words(fields.get("title_tks")), _texts(fields.get("important_kwd"))
    return [*content, *title * 2, *keywords * 5, *_words(fields.get("question_tks")) * 6]


def reranked_terms(fields: Mapping[str, JsonValue]) -> list[str]:
    """Give the terms of a chunk as they count beside a rerank model."""
    return [
        *_words(fields.get("content_ltks")),
        *_words(fields.get("title_tks")),
        *_texts(fields.get("important_kwd")),
    ]


def document_text(terms: Sequence[str]) -> str:
    """Write terms as the text that a rerank model reads: no blanks around Chinese.

    >>> document_text(["rank", "of", "检索", "组件", "2024"])
    'rank of检索组件2024'
    """
    text = ""
    for term in (term for term in terms if term):
        is_apart = bool(text) and _is_latin(text[-1]) and _is_latin(term[0])
        text += f" {term}" if is_apart else term
    return text


def _is_latin(character: str) -> bool:
    return character.isascii()


def tag_similarity(asked: Mapping[str, float], tags: Mapping[str, float]) -> float:
    """Give the cosine of two sets of weighed tags, 0 if either has none.

    >>> tag_similarity({"a": 3, "b": 4}, {"a": 1})
    0.6
    """
    lengths = [math.sqrt(sum(weight**2 for weight in side.values())) for side in (asked, tags)]
    if not all(lengths):
        return 0.0
    return sum(weight * tags.get(tag, 0) for tag, weight in asked.items()) / (lengths[0] * lengths[1])


def rank(
    candidates: Sequence[Candidate],
    terms: Sequence[float],
    vectors: Sequence[float],
    *,
    vector_weight: float,
    threshold: float,
    tags: Mapping[str, float] | None = None,
) -> list[Scored]:
    """Give the candidates over the threshold, best first; of equals, the one that was found first.

    The score is ``(1 - vector_weight) * term + vector_weight * vector``, and the page rank of the chunk's dataset
    and, if the question has ``tags``, ten times the likeness of the chunk's are added. Without a weight of
    vectors every candidate is kept.
    """
    least = threshold if vector_weight > 0 else 0.0
    scored: list[Scored] = []
    for candidate, term, vector in zip(candidates, terms, vectors, strict=True):
        score = (1 - vector_weight) * term + vector_weight * vector + _features(candidate.fields, tags or {})
        if score >= least:
            scored.append(Scored(candidate, score, term, vector))
    return sorted(scored, key=lambda found: -found.similarity)


def _features(fields: Mapping[str, JsonValue], tags: Mapping[str, float]) -> float:
    page_rank = _number(fields.get("pagerank_fea"))
    held = fields.get("tag_feas")
    if not tags or not isinstance(held, dict):
        return page_rank
    weights = {tag: _number(weight) for tag, weight in cast("dict[str, JsonValue]", held).items()}
    return page_rank + _TAG_FACTOR * tag_similarity(tags, weights)


def _number(value: JsonValue) -> float:
    """Read a number; what is none, or not finite, is 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if math.isfinite(value) else 0.0


def _words(value: JsonValue) -> list[str]:
    return value.split() if isinstance(value, str) else [word for text in _texts(value) for word in text.split()]


def _texts(value: JsonValue) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [text for text in cast("list[JsonValue]", value) if isinstance(text, str)] if isinstance(value, list) else []
