"""Searches by Elasticsearch's client, whose requests go through the guarded HTTP client.

A search raises for every incomplete answer, which the client itself and langchain-elasticsearch would accept. Every
failure becomes a `ServiceError` that names its cause and the setting to check.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from msgspec import Struct

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.lenient_values import as_list, as_map
from ragflow_lg.base.values import JsonValue
from ragflow_lg.services.http import HttpClient, HttpRequest

if TYPE_CHECKING:
    from elastic_transport import ApiResponseMeta, BaseAsyncNode, HttpHeaders
    from elastic_transport.client_utils import DefaultType
    from elasticsearch import AsyncElasticsearch

ATTEMPTS = 2
"""RAGFlow also tries a search twice if it times out."""

_MAX_REASON_CHARS = 400


class ElasticsearchSettings(Struct, frozen=True):
    """Address and credentials. ``url`` may include a user and password; ``api_key`` takes precedence over them."""

    url: str
    api_key: str = ""
    timeout_s: float = 30.0
    """Time limit for one search; RAGFlow waits 600 s."""

    def __repr__(self) -> str:
        """Return the address without credentials."""
        return f"ElasticsearchSettings({self.url.rpartition('@')[2]!r})"


class SettingNames(Struct, frozen=True):
    """What errors call the settings to check; the default is RAGFlow's index."""

    url: str = "[knowledge] url"
    index: str = 'the tenant in [datasets."ID"]'
    embedding_model: str = (
        'embedding_model in [datasets."ID"], which must be the model that created the vectors in RAGFlow,'
    )
    layout: str = "whether RAGFlow created the index"


RAGFLOW_INDEX = SettingNames()


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
        self._client: AsyncElasticsearch | None = None

    async def search(
        self, indices: Sequence[str], body: Mapping[str, Any], *, allow_missing: bool = False
    ) -> SearchHits:
        """Search indices. With ``allow_missing``, an index that does not exist counts as empty.

        Raises:
            ServiceError: if the response is missing, incomplete or invalid; its message names the setting to check.
        """
        if self._client is None:
            self._client = open_client(self._settings, self._http, self._names)
        options: dict[str, Any] = {"ignore_unavailable": True} if allow_missing else {}
        for attempt in range(1, ATTEMPTS + 1):
            try:
                answer = await self._client.search(index=",".join(indices), body=dict(body), **options)
            except ServiceError as error:
                if attempt == ATTEMPTS or not error.is_retryable:
                    raise
            else:
                return _parse_hits(self._names, as_map(answer["hits"]))
        raise AssertionError

    async def aclose(self) -> None:
        """Close Elasticsearch's client; the HTTP client belongs to the caller."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()


def _parse_hits(names: SettingNames, hits: Mapping[str, Any]) -> SearchHits:
    parsed: list[SearchHit] = []
    for row in map(as_map, as_list(hits["hits"])):
        id_, score, source = row.get("_id"), row.get("_score"), row.get("_source", {})
        if not isinstance(id_, str) or not isinstance(score, int | float | None) or not isinstance(source, dict):
            raise failure(names.url, "a hit has no id, score or fields", names.layout)
        parsed.append(SearchHit(id_, float(score or 0.0), cast("dict[str, JsonValue]", source)))
    total = hits.get("total")
    value = as_map(total).get("value") if isinstance(total, dict) else total
    return SearchHits(tuple(parsed), value if isinstance(value, int) else len(parsed))


def open_client(settings: ElasticsearchSettings, http: HttpClient, names: SettingNames) -> AsyncElasticsearch:
    """Return a client. Its searches raise `ServiceError`s, also for incomplete answers."""
    import elasticsearch

    class CheckingElasticsearch(elasticsearch.AsyncElasticsearch):
        async def search(self, *, index: str, **options: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - all that a connection and stores pass
            with _failures(names, index.split(",")):
                answer = await super().search(index=index, **options)
            _check_answer(names, answer.body)
            return answer.body

    return CheckingElasticsearch(
        [settings.url],
        node_class=_node_class(http),
        api_key=settings.api_key or None,
        request_timeout=settings.timeout_s,
        max_retries=0,
    )


@contextmanager
def _failures(names: SettingNames, indices: Sequence[str]) -> Generator[None]:
    """Convert the errors of Elasticsearch's client."""
    import elastic_transport
    import elasticsearch

    url = names.url
    try:
        yield
    except ServiceError as error:
        raise failure(url, str(error).rstrip("."), "", is_retryable=error.is_retryable) from error
    except elasticsearch.UnsupportedProductError:
        raise failure(url, "the server at its address is not Elasticsearch 8", "its address") from None
    except elasticsearch.ApiError as error:
        raise _refusal(names, error.status_code, error.body, indices) from None
    except elastic_transport.TransportError as error:
        raise failure(url, f"its response cannot be parsed ({type(error).__name__})", "its address") from None


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


def _refusal(names: SettingNames, status: int, body: Any, indices: Sequence[str]) -> ServiceError:
    """Convert an error response to an error that names the setting to check."""
    error: Any = as_map(body).get("error")
    causes: list[Any] = [*as_list(as_map(error).get("root_cause"))[:1], error]
    cause = next((as_map(each) for each in causes if isinstance(each, dict)), {"reason": error or ""})
    kind, reason = str(cause.get("type", "")), str(cause.get("reason", ""))[:_MAX_REASON_CHARS]
    url, listed = names.url, ", ".join(indices)
    if status in (401, 403):
        what = "the key or password is wrong" if status == 401 else f"reading {listed} is not allowed"
        return failure(url, f"{what} ({reason or status})", "api_key, or the user in url,")
    if kind == "index_not_found_exception" or status == 404:
        return failure(url, f"it has no index {listed}: {reason}", names.index)
    if kind == "media_type_header_exception" or status == 406:
        return failure(url, "its version is not supported by the client for Elasticsearch 8", "its address")
    if status == 429 or status >= 500:
        return failure(url, f"it is unavailable ({status}: {reason or kind or 'no reason'})", "", is_retryable=True)
    if "dimension" in reason or "_vec]" in reason:
        return failure(url, f"the question's vector does not fit the index: {reason}", names.embedding_model)
    return failure(url, f"it rejects the search ({status} {kind}: {reason})", names.layout)


def failure(url: str, what: str, setting: str, *, is_retryable: bool = False) -> ServiceError:
    """Return an error that names the server's setting and the one to check."""
    advice = f" Check {setting} in the settings." if setting else ""
    return ServiceError(f"Elasticsearch ({url}) cannot be searched: {what}.{advice}", is_retryable=is_retryable)


def _check_answer(names: SettingNames, answer: Any) -> None:
    """Check that a response is a complete one."""
    body = as_map(answer)
    shards, hits = as_map(body.get("_shards")), as_map(body.get("hits"))
    failures = shards.get("failed")
    if not isinstance(answer, dict):
        raise failure(names.url, "its response is not a JSON object", "its address")
    if body.get("timed_out"):
        raise failure(names.url, "the search exceeded the server's time limit", "", is_retryable=True)
    if not isinstance(failures, int):
        raise failure(names.url, "its response is not a search response", "its address")
    if failures:
        reason = as_map(next(iter(as_list(shards.get("failures"))), None)).get("reason")
        text = as_map(reason).get("reason") if isinstance(reason, dict) else reason
        why = f" ({str(text)[:_MAX_REASON_CHARS]})" if text else ""
        raise failure(names.url, f"{failures} of its shards failed{why}, so chunks are missing", "")
    if not isinstance(hits.get("hits"), list):
        raise failure(names.url, "its response has no hits", "its address")
