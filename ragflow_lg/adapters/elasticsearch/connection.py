"""Searches through langchain-elasticsearch's retriever, whose client uses the guarded HTTP client.

Every failure becomes a `ServiceError` that names its cause and the setting to check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from ragflow_lg.adapters.elasticsearch.checking_client import (
    RAGFLOW_INDEX,
    TOTAL,
    ElasticsearchSettings,
    SettingNames,
    failure,
    open_client,
)
from ragflow_lg.adapters.elasticsearch.search_requests import Body
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.values import JsonValue
from ragflow_lg.services.http import HttpClient

if TYPE_CHECKING:
    from elasticsearch import AsyncElasticsearch
    from langchain_core.documents import Document

ATTEMPTS = 2
"""RAGFlow also tries a search twice if it times out."""


class SearchHit(Struct, frozen=True):
    """A matching document. ``score`` is 0 for searches without scores."""

    id: str
    score: float
    fields: Mapping[str, JsonValue]


class SearchHits(Struct, frozen=True):
    """The returned documents, and the total number of matches."""

    hits: tuple[SearchHit, ...]
    total: int


class Connection:
    """A connection to a server; the first search opens it."""

    def __init__(self, settings: ElasticsearchSettings, http: HttpClient, names: SettingNames = RAGFLOW_INDEX) -> None:
        self._settings = settings
        self._names = names
        self._http = http
        self._clients: dict[bool, AsyncElasticsearch] = {}
        """By whether an index that does not exist counts as empty."""

    async def search(self, indices: Sequence[str], body: Body, *, allow_missing: bool = False) -> SearchHits:
        """Search indices. With ``allow_missing``, an index that does not exist counts as empty.

        Raises:
            ServiceError: if the response is missing, incomplete or invalid; its message names the setting to check.
        """
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._retrieve(indices, body, allow_missing=allow_missing)
            except ServiceError as error:
                if attempt == ATTEMPTS or not error.is_retryable:
                    raise
        raise AssertionError

    async def aclose(self) -> None:
        """Close Elasticsearch's clients; the HTTP client belongs to the caller."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.close()

    async def _retrieve(self, indices: Sequence[str], body: Body, *, allow_missing: bool) -> SearchHits:
        from langchain_elasticsearch import AsyncElasticsearchRetriever

        def build_body(query: str) -> dict[str, Any]:
            return dict(body)

        retriever = AsyncElasticsearchRetriever(
            index_name=",".join(indices),
            body_func=build_body,
            document_mapper=_to_document,
            client=self._client(allow_missing=allow_missing),
        )
        documents = await retriever.ainvoke("")
        total = documents[0].metadata[TOTAL] if documents else 0
        return SearchHits(tuple(_parse_hit(self._names, document.metadata) for document in documents), total)

    def _client(self, *, allow_missing: bool) -> AsyncElasticsearch:
        if allow_missing not in self._clients:
            self._clients[allow_missing] = open_client(
                self._settings, self._http, self._names, allow_missing=allow_missing
            )
        return self._clients[allow_missing]


def _to_document(row: Mapping[str, Any]) -> Document:
    from langchain_core.documents import Document

    return Document("", metadata=dict(row))


def _parse_hit(names: SettingNames, fields: Mapping[str, Any]) -> SearchHit:
    id_, score, source = fields.get("_id"), fields.get("_score"), fields.get("_source", {})
    if not isinstance(id_, str) or not isinstance(score, int | float | None) or not isinstance(source, dict):
        raise failure(names.url, "a hit has no id, score or fields", names.layout)
    return SearchHit(id_, float(score or 0.0), cast("dict[str, JsonValue]", source))
