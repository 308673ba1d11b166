"""Vectors of hashed words, for datasets without an embedding model. They compare words, not meanings."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ragflow_lg.adapters.knowledge.words import split_words

__all__ = ["HASHING_MODEL", "HashingEmbedder"]

HASHING_MODEL = "hashing-stand-in"
"""The embedding model id of datasets that were created without a model."""

DIMS = 384


class HashingEmbedder:
    """A `ragflow_lg.services.knowledge.Embedder` without a model; its vectors are the same on every machine."""

    name = f"{HASHING_MODEL} (no model: it compares words, not meanings)"
    is_stand_in = True

    async def embed_question(self, text: str) -> Sequence[float]:
        """Return the vector of a question."""
        return self.vectors([text])[0].tolist()

    async def embed_chunks(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the vectors of chunks, in order."""
        return self.vectors(texts).tolist()

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a unit vector for each text: each different word adds 1 or -1 at an index given by its CRC-32."""
        rows = np.zeros((len(texts), DIMS), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            codes = np.fromiter((crc32(word.encode()) for word in set(split_words(text))), dtype=np.int64)
            if len(codes):
                signs = np.where(codes & 0x80000000, 1.0, -1.0)
                row[:] = np.bincount((codes & 0x7FFFFFFF) % DIMS, weights=signs, minlength=DIMS)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32)
