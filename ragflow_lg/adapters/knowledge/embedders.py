"""Selection of the embedding model of a dataset."""

from __future__ import annotations

from collections.abc import Mapping

from ragflow_lg.adapters.knowledge.endpoint_embedder import EmbeddingSettings, EndpointEmbedder
from ragflow_lg.adapters.knowledge.hash_embedder import HASHING_MODEL, HashingEmbedder
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.services.http import HttpClient
from ragflow_lg.services.knowledge import Embedder

__all__ = ["ConfiguredEmbedders"]


class ConfiguredEmbedders:
    """The `Embedders` of the settings. ``default`` is the id for new datasets; ``""`` means the hashing model."""

    def __init__(self, settings: Mapping[str, EmbeddingSettings], http: HttpClient, *, default: str = "") -> None:
        self._settings = settings
        self._http = http
        self.default = default or HASHING_MODEL

    def embedder(self, embedding_model: str) -> Embedder:
        """Return the model of an id, with or without the provider that RAGFlow appends.

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
