"""Searches in Elasticsearch through its own client, whose traffic goes through the guarded one.

Whatever goes wrong becomes a `ServiceError` that says what it is and which setting to look at.
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

__all__ = ["Connection", "ElasticsearchSettings", "Hit", "Hits"]

ATTEMPTS = 2
"""As often as RAGFlow tries a search that is not answered in time."""

_MAX_REASON_CHARS = 400


class ElasticsearchSettings(Struct, frozen=True):
    """Where the server is. ``url`` may hold a name and a password; ``api_key`` goes before them."""

    url: str
    api_key: str = ""
    timeout_s: float = 30.0
    """How long one search may take; RAGFlow waits 600 s."""

    def __repr__(self) -> str:
        """Leave out what is secret."""
        return f"ElasticsearchSettings({self.url.rpartition('@')[2]!r})"


class Hit(Struct, frozen=True):
    """A document that was found. ``score`` is 0 where nothing is scored."""

    id: str
    score: float
    fields: Mapping[str, JsonValue]


class Hits(Struct, frozen=True):
    """What was found, and how much there is in all."""

    hits: tuple[Hit, ...]
    total: int


class Connection:
    """A server. Nothing is sent before the first search."""

    def __init__(self, settings: ElasticsearchSettings, http: HttpClient) -> None:
        self._settings = settings
        self._http = http
        self._opened: AsyncElasticsearch | None = None

    async def search(self, indices: Sequence[str], body: Body, *, may_lack: bool = False) -> Hits:
        """Search. ``may_lack`` lets an index be missing, which then holds nothing.

        Raises:
            ServiceError: if there is no whole and readable answer; its text names the setting to look at.
        """
        for attempt in range(1, ATTEMPTS + 1):
            try:
                answer = await self._ask(indices, body, may_lack=may_lack)
                return _checked(answer)
            except ServiceError as error:
                if attempt == ATTEMPTS or not error.is_retryable:
                    raise
        raise AssertionError

    async def aclose(self) -> None:
        """Close the client, but not the one that it was given."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    async def _ask(self, indices: Sequence[str], body: Body, *, may_lack: bool) -> Any:
        import elastic_transport
        import elasticsearch

        path = f"/{','.join(indices)}/_search" + ("?ignore_unavailable=true" if may_lack else "")
        headers = {"accept": "application/json", "content-type": "application/json"}
        try:
            answer = await self._client().perform_request("POST", path, headers=headers, body=body)
        except ServiceError as error:
            raise _failure(str(error).rstrip("."), "", is_retryable=error.is_retryable) from error
        except elasticsearch.UnsupportedProductError:
            raise _failure("what answers there is not Elasticsearch 8", "its address") from None
        except elasticsearch.ApiError as error:
            raise _refused(error.status_code, error.body, indices) from None
        except elastic_transport.TransportError as error:
            raise _failure(f"its answer cannot be read ({type(error).__name__})", "its address") from None
        return answer.body

    def _client(self) -> AsyncElasticsearch:
        if self._opened is None:
            from elasticsearch import AsyncElasticsearch

            self._opened = AsyncElasticsearch(
                [self._settings.url],
                node_class=_node_class(self._http),
                api_key=self._settings.api_key or None,
                request_timeout=self._settings.timeout_s,
                max_retries=0,
            )
        return self._opened


class _Answer(NamedTuple):
    """What a node gives; the client's own class is not public."""

    meta: ApiResponseMeta
    body: bytes


def _node_class(http: HttpClient) -> type[BaseAsyncNode]:
    """Make a class of nodes that send through a client."""
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


def _refused(status: int, body: Any, indices: Sequence[str]) -> ServiceError:
    """Say why the server refuses a search."""
    kind, reason = _cause(body)
    names = ", ".join(indices)
    if status in (401, 403):
        what = "the key or password is refused" if status == 401 else f"reading {names} is not allowed"
        return _failure(f"{what} ({reason or status})", "api_key, or the user in url,")
    if kind == "index_not_found_exception" or status == 404:
        return _failure(f"it has no index {names}: {reason}", 'the tenant of [datasets."ID"]')
    if kind == "media_type_header_exception" or status == 406:
        return _failure("its version is none that the client of Elasticsearch 8 can talk to", "its address")
    if status == 429 or status >= 500:
        return _failure(f"it cannot answer now ({status}: {reason or kind or 'no reason'})", "", is_retryable=True)
    if "dimension" in reason or "_vec]" in reason:
        setting = 'embedding_model of [datasets."ID"]; it must be the model that RAGFlow made the vectors with'
        return _failure(f"the question's vector does not fit the index: {reason}", setting)
    return _failure(f"it refuses the search ({status} {kind}: {reason})", "whether RAGFlow made the index")


def _cause(body: Any) -> tuple[str, str]:
    """Give kind and text of the deepest cause that an error names."""
    error: Any = cast("dict[str, Any]", body).get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return "", str(error or "")[:_MAX_REASON_CHARS]
    found = cast("dict[str, Any]", error)
    roots = found.get("root_cause")
    first = cast("list[Any]", roots)[0] if isinstance(roots, list) and roots else None
    if isinstance(first, dict):
        found = cast("dict[str, Any]", first)
    return str(found.get("type", "")), str(found.get("reason", ""))[:_MAX_REASON_CHARS]


def _failure(what: str, setting: str, *, is_retryable: bool = False) -> ServiceError:
    advice = f" Check {setting} in the settings." if setting else ""
    return ServiceError(
        f"Elasticsearch ([knowledge] url) cannot be searched: {what}.{advice}", is_retryable=is_retryable
    )


def _checked(answer: Any) -> Hits:
    """Read an answer; one that is not whole is no answer."""
    if not isinstance(answer, dict):
        raise _failure("its answer is no JSON object", "its address")
    found = cast("dict[str, Any]", answer)
    if found.get("timed_out"):
        raise _failure("the search took longer than the server allows", "", is_retryable=True)
    shards = found.get("_shards")
    failed: Any = cast("dict[str, Any]", shards).get("failed") if isinstance(shards, dict) else None
    if not isinstance(failed, int):
        raise _failure("its answer is not that of a search", "its address")
    if failed:
        reason = _shard_reason(shards)
        raise _failure(f"{failed} of its shards did not answer{reason}; a part of the chunks is missing", "")
    hits = found.get("hits")
    rows: Any = cast("dict[str, Any]", hits).get("hits") if isinstance(hits, dict) else None
    if not isinstance(rows, list):
        raise _failure("its answer holds no hits", "its address")
    read = tuple(_hit(row) for row in cast("list[Any]", rows))
    return Hits(read, _total(cast("dict[str, Any]", hits), len(read)))


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


def _hit(row: Any) -> Hit:
    found = cast("dict[str, Any]", row) if isinstance(row, dict) else {}
    id_, score, source = found.get("_id"), found.get("_score"), found.get("_source", {})
    if not isinstance(id_, str) or not isinstance(score, int | float | None) or not isinstance(source, dict):
        raise _failure("a hit has no id, score or fields", "whether RAGFlow made the index")
    return Hit(id_, float(score or 0.0), cast("dict[str, JsonValue]", source))
