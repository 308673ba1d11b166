"""Selection of the embedding model for a dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from zlib import crc32

from ragflow_lg.adapters.knowledge.endpoint_embedder import EmbeddingSettings, EndpointEmbedder
from ragflow_lg.adapters.knowledge.words import split_words
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.extras import require
from ragflow_lg.services.http import HttpClient
from ragflow_lg.services.knowledge import Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HASHING_MODEL = "hashing-stand-in"
"""The embedding model id for datasets that were created without a model."""

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
        """Return a unit vector for each text: each distinct word adds 1 or -1 at an index given by its CRC-32."""
        require("knowledge", "A dataset without an embedding model")
        import numpy as np

        rows = np.zeros((len(texts), DIMS), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            codes = np.fromiter((crc32(word.encode()) for word in set(split_words(text))), dtype=np.int64)
            if len(codes):
                signs = np.where(codes & 0x80000000, 1.0, -1.0)
                row[:] = np.bincount((codes & 0x7FFFFFFF) % DIMS, weights=signs, minlength=DIMS)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32)


class ConfiguredEmbedders:
    """The `Embedders` from the settings. ``default`` is the id for new datasets; ``""`` means the hashing model."""

    def __init__(self, settings: Mapping[str, EmbeddingSettings], http: HttpClient, *, default: str = "") -> None:
        self._settings = settings
        self._http = http
        self.default = default or HASHING_MODEL

    def embedder(self, embedding_model: str) -> Embedder:
        """Return the model for an id, with or without the provider that RAGFlow appends.

        Raises:
            SettingsError: if the settings do not contain the id.
        """
        id_ = embedding_model or self.default
        if id_ == HASHING_MODEL:
            return HashingEmbedder()
        for key in (id_, id_.partition("#")[0], id_.rpartition("@")[0]):
            if key in self._settings:
                return EndpointEmbedder(key, self._settings[key], self._http)
        known = f" Known models: {', '.join(map(repr, self._settings))}." if self._settings else ""
        raise SettingsError(
            f'There is no embedding model {id_!r} in the settings: add [embeddings."{id_}"] with base_url, model '
            f"and api_key_env.{known}"
        )
