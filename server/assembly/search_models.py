"""The embedding and rerank models of the settings."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ragflow_lg.adapters.model_endpoint import endpoint_host

if TYPE_CHECKING:
    from ragflow_lg.adapters.http.http_client import GuardedHttpClient
    from ragflow_lg.adapters.knowledge.embedders import ConfiguredEmbedders
    from ragflow_lg.adapters.knowledge.rerankers import ConfiguredRerankers, RerankerSettings
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.workers import Workers

MAX_ANSWER_BYTES = 256 * 1024**2


class SearchModels:
    """The models, whose endpoints may be in the private network; ``workers`` read the answers of rerank models."""

    def __init__(self, settings: Settings, workers: Workers | None = None) -> None:
        """Initialize. The first use of a model opens its connections."""
        self._settings = settings
        self._workers = workers

    @cached_property
    def embedders(self) -> ConfiguredEmbedders:
        """The embedding models."""
        from ragflow_lg.adapters.knowledge.embedders import ConfiguredEmbedders

        settings = self._settings
        return ConfiguredEmbedders(
            settings.embedding_settings(), default=settings.default_embedding, find_known=settings.known_embedding
        )

    @cached_property
    def rerankers(self) -> ConfiguredRerankers:
        """The rerank models."""
        from ragflow_lg.adapters.knowledge.rerankers import ConfiguredRerankers, RerankerSettings

        def find_known(id_: str) -> RerankerSettings | None:
            fields = settings.known_reranker(id_)
            return RerankerSettings(**fields) if fields else None

        settings = self._settings
        models = {id_: RerankerSettings(**section.endpoint(id_)) for id_, section in settings.rerankers.items()}
        return ConfiguredRerankers(models, self._http, self._workers, find_known=find_known)

    @cached_property
    def _http(self) -> GuardedHttpClient:
        addresses = [section.address(id_) for id_, section in self._settings.rerankers.items()]
        known = self._settings.chat_settings().known_providers.values()
        return open_client(
            self._settings, *map(endpoint_host, [*addresses, *(p.base_url for p in known if p.base_url)])
        )

    async def aclose(self) -> None:
        """Close the connections."""
        for name in ("embedders", "_http"):
            if name in self.__dict__:
                await getattr(self, name).aclose()


def open_client(settings: Settings, *hosts: str) -> GuardedHttpClient:
    """Return a client for servers of the settings, which may be in the private network."""
    from ragflow_lg.adapters.http.http_client import GuardedHttpClient
    from ragflow_lg.adapters.http.http_settings import HttpSettings

    http = settings.http_settings
    size = max(http.max_response_bytes, MAX_ANSWER_BYTES)
    return GuardedHttpClient(HttpSettings((*http.allow, *hosts), http.timeout_s, size))
