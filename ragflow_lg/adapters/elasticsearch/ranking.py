"""Chunk scores for a question, and the resulting order.

Source: RAGFlow's ``rag/nlp/search.py`` and ``rag/nlp/query.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

from msgspec import Struct

from ragflow_lg.adapters.elasticsearch.term_weights import TermWeights
from ragflow_lg.base.values import JsonValue

_TINY = 1e-9
_TAG_FACTOR = 10


class Candidate(Struct, frozen=True):
    """A chunk of the first request, with the fields that its score depends on."""

    id: str
    fields: Mapping[str, JsonValue]


class ScoredChunk(Struct, frozen=True):
    """A candidate with its scores, as RAGFlow computes them."""

    candidate: Candidate
    similarity: float
    term_similarity: float
    vector_similarity: float


def score_terms(keywords: Sequence[str], chunks: Sequence[Sequence[str]], weights: TermWeights) -> list[float]:
    """Return the weighted share of keywords and neighbouring keyword pairs in each chunk, from 0 to 1."""
    wanted = _shares(keywords, weights)
    total = _TINY + sum(wanted.values())
    scores: list[float] = []
    for terms in chunks:
        shares = _shares(terms, weights)
        scores.append((_TINY + sum(share for key, share in wanted.items() if key in shares)) / total)
    return scores


def _shares(terms: Sequence[str], weights: TermWeights) -> dict[str, float]:
    shares: dict[str, float] = {}
    weighted_terms = weights.weigh_terms(terms)
    for index, (term, weight) in enumerate(weighted_terms):
        shares[term] = shares.get(term, 0.0) + 0.4 * weight
        if index + 1 < len(weighted_terms):
            neighbour, other = weighted_terms[index + 1]
            shares[term + neighbour] = shares.get(term + neighbour, 0.0) + 0.6 * max(weight, other)
    return shares


def list_terms(fields: Mapping[str, JsonValue]) -> list[str]:
    """Return the terms of a chunk for scores without a rerank model: content terms once, title and keywords repeated.

    >>> list_terms({"content_ltks": "a b a", "title_tks": "t", "important_kwd": ["k"], "question_tks": ""})
    ['a', 'b', 't', 't', 'k', 'k', 'k', 'k', 'k']
    """
    content = list(dict.fromkeys(_words(fields.get("content_ltks"))))
    title, keywords = _words(fields.get("title_tks")), _texts(fields.get("important_kwd"))
    return [*content, *title * 2, *keywords * 5, *_words(fields.get("question_tks")) * 6]


def list_rerank_terms(fields: Mapping[str, JsonValue]) -> list[str]:
    """Return the terms of a chunk for scores with a rerank model."""
    return [
        *_words(fields.get("content_ltks")),
        *_words(fields.get("title_tks")),
        *_texts(fields.get("important_kwd")),
    ]


def join_terms(terms: Sequence[str]) -> str:
    """Join terms into text for a rerank model, with spaces only between two ASCII characters, not around Chinese.

    >>> join_terms(["rank", "of", "检索", "组件", "2024"])
    'rank of检索组件2024'
    """
    text = ""
    for term in (term for term in terms if term):
        needs_blank = bool(text) and _is_latin(text[-1]) and _is_latin(term[0])
        text += f" {term}" if needs_blank else term
    return text


def _is_latin(character: str) -> bool:
    return character.isascii()


def tag_similarity(question_tags: Mapping[str, float], tags: Mapping[str, float]) -> float:
    """Return the cosine similarity of two sets of weighted tags, or 0 if one is empty.

    >>> tag_similarity({"a": 3, "b": 4}, {"a": 1})
    0.6
    """
    lengths = [math.sqrt(sum(weight**2 for weight in side.values())) for side in (question_tags, tags)]
    if not all(lengths):
        return 0.0
    return sum(weight * tags.get(tag, 0) for tag, weight in question_tags.items()) / (lengths[0] * lengths[1])


def rank(
    candidates: Sequence[Candidate],
    terms: Sequence[float],
    vectors: Sequence[float],
    *,
    vector_weight: float,
    threshold: float,
    tags: Mapping[str, float] | None = None,
) -> list[ScoredChunk]:
    """Return the candidates that reach the threshold, best first. Candidates with equal scores keep their order.

    The score is ``(1 - vector_weight) * term + vector_weight * vector``, plus the page rank of the chunk's dataset. If
    the question has ``tags``, ten times their similarity to the chunk's tags is added. If ``vector_weight`` is 0, the
    threshold does not apply.
    """
    least = threshold if vector_weight > 0 else 0.0
    scored: list[ScoredChunk] = []
    for candidate, term, vector in zip(candidates, terms, vectors, strict=True):
        score = (1 - vector_weight) * term + vector_weight * vector + _features(candidate.fields, tags or {})
        if score >= least:
            scored.append(ScoredChunk(candidate, score, term, vector))
    return sorted(scored, key=lambda chunk: -chunk.similarity)


def _features(fields: Mapping[str, JsonValue], tags: Mapping[str, float]) -> float:
    page_rank = _number(fields.get("pagerank_fea"))
    chunk_tags = fields.get("tag_feas")
    if not tags or not isinstance(chunk_tags, dict):
        return page_rank
    weights = {tag: _number(weight) for tag, weight in cast("dict[str, JsonValue]", chunk_tags).items()}
    return page_rank + _TAG_FACTOR * tag_similarity(tags, weights)


def _number(value: JsonValue) -> float:
    """Return a number; 0 for other values and for numbers that are not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if math.isfinite(value) else 0.0


def _words(value: JsonValue) -> list[str]:
    return value.split() if isinstance(value, str) else [word for text in _texts(value) for word in text.split()]


def _texts(value: JsonValue) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [text for text in cast("list[JsonValue]", value) if isinstance(text, str)] if isinstance(value, list) else []
