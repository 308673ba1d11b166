"""Embedding and rerank models that tests can foresee."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence

from ragflow_lg.base.errors import SettingsError

__all__ = ["WordEmbedder", "WordEmbedders", "WordReranker", "WordRerankers"]


class WordEmbedder:
    """Vectors of word counts, by a hash of the word: all numbers are positive, so every cosine is."""

    is_stand_in = False

    def __init__(self, length: int = 8, name: str = "words") -> None:
        self.length, self.name = length, name
        self.asked: list[str] = []

    def vector(self, text: str) -> list[float]:
        counts = [0.05] * self.length
        for word in text.lower().split():
            counts[zlib.crc32(word.encode()) % self.length] += 1
        norm = math.sqrt(sum(count * count for count in counts))
        return [round(count / norm, 6) for count in counts]

    async def embed_question(self, text: str) -> Sequence[float]:
        self.asked.append(text)
        return self.vector(text)

    async def embed_chunks(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [self.vector(text) for text in texts]


class WordEmbedders:
    """One embedder for all models; ``embedder("")`` too."""

    def __init__(self, embedder: WordEmbedder | None = None) -> None:
        self.held = embedder or WordEmbedder()

    def embedder(self, embedding_model: str) -> WordEmbedder:
        return self.held


class WordReranker:
    """Scores by how many words of the question a text has."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []

    async def scores(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        self.asked.append((question, list(texts)))
        words = set(question.lower().split())
        return [float(len(words & set(text.split()))) - 1.0 for text in texts]


class WordRerankers:
    """Knows the model ``words`` only."""

    def __init__(self) -> None:
        self.held = WordReranker()

    def reranker(self, rerank_id: str) -> WordReranker:
        if rerank_id != "words":
            raise SettingsError(f"no reranker {rerank_id!r}")
        return self.held
