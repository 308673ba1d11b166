"""Deterministic embedding and rerank models."""

import math
import zlib
from collections.abc import Sequence

from ragflow_lg.adapters.knowledge.words import split_words
from ragflow_lg.base.errors import SettingsError


class WordEmbedder:
    """Vectors of word counts by a hash of the word; all cosines are positive."""

    def __init__(self, length: int = 8, name: str = "words") -> None:
        self.length, self.vector_model = length, name

    def vector(self, text: str) -> list[float]:
        counts = [0.05] * self.length
        for word in text.lower().split():
            counts[zlib.crc32(word.encode()) % self.length] += 1
        norm = math.sqrt(sum(count * count for count in counts))
        return [round(count / norm, 6) for count in counts]

    async def embed_question(self, text: str) -> Sequence[float]:
        return self.vector(text)

    async def embed_chunks(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [self.vector(text) for text in texts]


class HashingEmbedder:
    """Unit vectors of 384 numbers: each different word of a text adds 1 or -1 to one of them."""

    vector_model = "hashing"

    async def embed_question(self, text: str) -> Sequence[float]:
        return self.vector(text)

    async def embed_chunks(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return [self.vector(text) for text in texts]

    def vector(self, text: str) -> list[float]:
        row = [0.0] * 384
        for word in set(split_words(text)):
            code = zlib.crc32(word.encode())
            row[(code & 0x7FFFFFFF) % 384] += 1 if code & 0x80000000 else -1
        length = math.hypot(*row) or 1.0
        return [number / length for number in row]


class WordEmbedders:
    """One embedder for all models, including ``""``."""

    def __init__(self, embedder: WordEmbedder | None = None) -> None:
        self._embedder = embedder or WordEmbedder()

    def embedder(self, embedding_model: str) -> WordEmbedder:
        return self._embedder


class WordReranker:
    """A reranker that counts the words of the question in a text."""

    async def scores(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        words = set(question.lower().split())
        return [float(len(words & set(text.split()))) - 1.0 for text in texts]


class WordRerankers:
    """A provider of the model ``words`` only."""

    def __init__(self) -> None:
        self._reranker = WordReranker()

    def reranker(self, rerank_id: str) -> WordReranker:
        if rerank_id != "words":
            raise SettingsError(f"no reranker {rerank_id!r}")
        return self._reranker
