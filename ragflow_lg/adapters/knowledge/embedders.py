"""From the embedding model that a dataset names to the one that makes its vectors."""

from __future__ import annotations

from collections.abc import Mapping

from ragflow_lg.adapters.knowledge.endpoint_embedder import EmbeddingSettings, EndpointEmbedder
from ragflow_lg.adapters.knowledge.hash_embedder import STAND_IN, HashingEmbedder
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.services.http import HttpClient
from ragflow_lg.services.knowledge import Embedder

__all__ = ["ConfiguredEmbedders"]


class ConfiguredEmbedders:
    """The `Embedders` of the settings. ``default`` is the id for new datasets, ``""`` for the stand-in."""

    def __init__(self, settings: Mapping[str, EmbeddingSettings], http: HttpClient, *, default: str = "") -> None:
        self._settings = settings
        self._http = http
        self.default = default or STAND_IN

    def embedder(self, embedding_model: str) -> Embedder:
        """Give the model of an id, with or without the provider that RAGFlow writes behind it.

        Raises:
            SettingsError: if the settings have none of this id.
        """
        wanted = embedding_model or self.default
        if wanted == STAND_IN:
            return HashingEmbedder()
        for id_ in (wanted, wanted.partition("#")[0], wanted.rpartition("@")[0]):
            if id_ in self._settings:
                return EndpointEmbedder(id_, self._settings[id_], self._http)
        known = f" The settings have {', '.join(map(repr, self._settings))}." if self._settings else ""
        raise SettingsError(
            f'There is no embedding model {wanted!r} in the settings: add [embeddings."{wanted}"] with base_url, model '
            f"and api_key_env.{known}"
        )
