"""Searches through langchain-elasticsearch's retriever, whose client uses the guarded HTTP client.

Every failure becomes a `ServiceError` that names its cause and the setting to check.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from msgspec import Struct

from ragflow_lg.adapters.elasticsearch.search_requests import Body
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.values import JsonValue
from ragflow_lg.services.http import HttpClient, HttpRequest

if TYPE_CHECKING:
    from elastic_transport import ApiResponseMeta, BaseAsyncNode, HttpHeaders
    from elastic_transport.client_utils import DefaultType
    from elasticsearch import AsyncElasticsearch
    from langchain_core.documents import Document

ATTEMPTS = 2
"""RAGFlow also tries a search twice if it times out."""

_MAX_REASON_CHARS = 400
_TOTAL = "_total"
"""Key of the number of all matches, which the retriever does not return."""


class ElasticsearchSettings(Struct, frozen=True):
    """Address and credentials. ``url`` may include a user and password; ``api_key`` takes precedence over them."""

    url: str
    api_key: str = ""
    timeout_s: float = 30.0
    """Time limit for one search; RAGFlow waits 600 s."""

    def __repr__(self) -> str:
        """Return the address without credentials."""
        return f"ElasticsearchSettings({self.url.rpartition('@')[2]!r})"


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

    def __init__(self, settings: ElasticsearchSettings, http: HttpClient) -> None:
        self._settings = settings
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
        total = documents[0].metadata[_TOTAL] if documents else 0
        return SearchHits(tuple(_parse_hit(document.metadata) for document in documents), total)

    def _client(self, *, allow_missing: bool) -> AsyncElasticsearch:
        if allow_missing not in self._clients:
            self._clients[allow_missing] = _client_class(allow_missing=allow_missing)(
                [self._settings.url],
                node_class=_node_class(self._http),
                api_key=self._settings.api_key or None,
                request_timeout=self._settings.timeout_s,
                max_retries=0,
            )
        return self._clients[allow_missing]


def _client_class(*, allow_missing: bool) -> type[AsyncElasticsearch]:
    """Return a client class whose search raises for incomplete responses, which the retriever would accept."""
    import elastic_transport
    import elasticsearch

    class CheckingElasticsearch(elasticsearch.AsyncElasticsearch):
        async def search(self, *, index: str, body: Body) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - all that the retriever passes
            path = f"/{index}/_search" + ("?ignore_unavailable=true" if allow_missing else "")
            headers = {**self._headers, "accept": "application/json", "content-type": "application/json"}
            try:
                answer = await self.perform_request("POST", path, headers=headers, body=body)
            except ServiceError as error:
                raise _failure(str(error).rstrip("."), "", is_retryable=error.is_retryable) from error
            except elasticsearch.UnsupportedProductError:
                raise _failure("the server at its address is not Elasticsearch 8", "its address") from None
            except elasticsearch.ApiError as error:
                raise _refusal(error.status_code, error.body, index.split(",")) from None
            except elastic_transport.TransportError as error:
                raise _failure(f"its response cannot be parsed ({type(error).__name__})", "its address") from None
            return {"hits": {"hits": _check_rows(answer.body)}}

    return CheckingElasticsearch


def _to_document(row: Mapping[str, Any]) -> Document:
    from langchain_core.documents import Document

    return Document("", metadata=dict(row))


class _Answer(NamedTuple):
    """The response of a node; the client's own class is not public."""

    meta: ApiResponseMeta
    body: bytes


def _node_class(http: HttpClient) -> type[BaseAsyncNode]:
    """Return a node class that sends its requests through an HTTP client."""
    from elastic_transport import ApiResponseMeta, BaseAsyncNode, HttpHeaders

    class GuardedNode(BaseAsyncNode):
        _CLIENT_META_HTTP_CLIENT = ("rl", "1")

        async def perform_request(
            self,
            method: str,
            target: str,
            body: bytes | None = None,
            headers: HttpHeaders | None = None,
            request_timeout: DefaultType | float | None = None,
        ) -> Any:
            answer = await http.send(
                HttpRequest(
                    cast("Any", method),
                    f"{self.base_url}{target}",
                    headers={**self.headers, **(headers or {})},
                    json=json.loads(body) if body else None,
                    timeout_s=request_timeout if isinstance(request_timeout, int | float) else 30.0,
                )
            )
            meta = ApiResponseMeta(answer.status, "1.1", HttpHeaders(answer.headers), 0.0, self.config)
            return _Answer(meta, answer.text.encode())

        async def close(self) -> None:
            pass

    return GuardedNode


def _refusal(status: int, body: Any, indices: Sequence[str]) -> ServiceError:
    """Convert an error response to an error that names the setting to check."""
    kind, reason = _cause(body)
    names = ", ".join(indices)
    if status in (401, 403):
        what = "the key or password is wrong" if status == 401 else f"reading {names} is not allowed"
        return _failure(f"{what} ({reason or status})", "api_key, or the user in url,")
    if kind == "index_not_found_exception" or status == 404:
        return _failure(f"it has no index {names}: {reason}", 'the tenant in [datasets."ID"]')
    if kind == "media_type_header_exception" or status == 406:
        return _failure("its version is not supported by the client for Elasticsearch 8", "its address")
    if status == 429 or status >= 500:
        return _failure(f"it is unavailable ({status}: {reason or kind or 'no reason'})", "", is_retryable=True)
    if "dimension" in reason or "_vec]" in reason:
        setting = 'embedding_model in [datasets."ID"], which must be the model that created the vectors in RAGFlow,'
        return _failure(f"the question's vector does not fit the index: {reason}", setting)
    return _failure(f"it rejects the search ({status} {kind}: {reason})", "whether RAGFlow created the index")


def _cause(body: Any) -> tuple[str, str]:
    """Return the type and reason of an error's root cause."""
    error: Any = cast("dict[str, Any]", body).get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return "", str(error or "")[:_MAX_REASON_CHARS]
    cause = cast("dict[str, Any]", error)
    roots = cause.get("root_cause")
    first = cast("list[Any]", roots)[0] if isinstance(roots, list) and roots else None
    if isinstance(first, dict):
        cause = cast("dict[str, Any]", first)
    return str(cause.get("type", "")), str(cause.get("reason", ""))[:_MAX_REASON_CHARS]


def _failure(what: str, setting: str, *, is_retryable: bool = False) -> ServiceError:
    advice = f" Check {setting} in the settings." if setting else ""
    return ServiceError(
        f"Elasticsearch ([knowledge] url) cannot be searched: {what}.{advice}", is_retryable=is_retryable
    )


def _check_rows(answer: Any) -> list[dict[str, Any]]:
    """Return the rows of a response, each with the number of all matches; raise if the response is incomplete."""
    if not isinstance(answer, dict):
        raise _failure("its response is not a JSON object", "its address")
    body = cast("dict[str, Any]", answer)
    if body.get("timed_out"):
        raise _failure("the search exceeded the server's time limit", "", is_retryable=True)
    shards = body.get("_shards")
    failures: Any = cast("dict[str, Any]", shards).get("failed") if isinstance(shards, dict) else None
    if not isinstance(failures, int):
        raise _failure("its response is not a search response", "its address")
    if failures:
        reason = _shard_reason(shards)
        raise _failure(f"{failures} of its shards failed{reason}, so chunks are missing", "")
    hits = body.get("hits")
    rows: Any = cast("dict[str, Any]", hits).get("hits") if isinstance(hits, dict) else None
    if not isinstance(rows, list):
        raise _failure("its response has no hits", "its address")
    total = _total(cast("dict[str, Any]", hits), len(cast("list[Any]", rows)))
    return [{**row, _TOTAL: total} if isinstance(row, dict) else {} for row in cast("list[Any]", rows)]


def _shard_reason(shards: Any) -> str:
    failures: Any = cast("dict[str, Any]", shards).get("failures") if isinstance(shards, dict) else None
    if not isinstance(failures, list) or not failures or not isinstance(failures[0], dict):
        return ""
    reason: Any = cast("dict[str, Any]", failures[0]).get("reason")
    text = cast("dict[str, Any]", reason).get("reason") if isinstance(reason, dict) else reason
    return f" ({str(text)[:_MAX_REASON_CHARS]})" if text else ""


def _total(hits: Mapping[str, Any], least: int) -> int:
    total = hits.get("total")
    value: Any = cast("dict[str, Any]", total).get("value") if isinstance(total, dict) else total
    return value if isinstance(value, int) else least


def _parse_hit(fields: Mapping[str, Any]) -> SearchHit:
    id_, score, source = fields.get("_id"), fields.get("_score"), fields.get("_source", {})
    if not isinstance(id_, str) or not isinstance(score, int | float | None) or not isinstance(source, dict):
        raise _failure("a hit has no id, score or fields", "whether RAGFlow created the index")
    return SearchHit(id_, float(score or 0.0), cast("dict[str, JsonValue]", source))
