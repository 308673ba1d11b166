"""Elasticsearch's client as langchain-elasticsearch gets it.

Its requests go through the guarded HTTP client, and its searches raise for incomplete responses, which retrievers and
vector stores would accept.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from msgspec import Struct

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.lenient_values import as_list, as_map
from ragflow_lg.services.http import HttpClient, HttpRequest

if TYPE_CHECKING:
    from elastic_transport import ApiResponseMeta, BaseAsyncNode, HttpHeaders
    from elastic_transport.client_utils import DefaultType
    from elasticsearch import AsyncElasticsearch

TOTAL = "_total"
"""Key of the number of all matches, which is added to each row because the retriever does not return it."""

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


def open_client(
    settings: ElasticsearchSettings, http: HttpClient, names: SettingNames, *, allow_missing: bool = False
) -> AsyncElasticsearch:
    """Return a client. Its errors are `ServiceError`s. With ``allow_missing``, a missing index counts as empty."""
    return _client_class(names, allow_missing=allow_missing)(
        [settings.url],
        node_class=_node_class(http),
        api_key=settings.api_key or None,
        request_timeout=settings.timeout_s,
        max_retries=0,
    )


def _client_class(names: SettingNames, *, allow_missing: bool) -> type[AsyncElasticsearch]:
    import elasticsearch

    class CheckingElasticsearch(elasticsearch.AsyncElasticsearch):
        async def search(self, *, index: str, body: Mapping[str, Any] | None = None, **options: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - all that retrievers and stores pass
            with _failures(names, index.split(",")):
                if body is None:  # a vector store
                    answer = await super().search(index=index, **options)
                else:  # a retriever
                    path = f"/{index}/_search" + ("?ignore_unavailable=true" if allow_missing else "")
                    headers = {**self._headers, "accept": "application/json", "content-type": "application/json"}
                    answer = await self.perform_request("POST", path, headers=headers, body=dict(body))
            return {"hits": {"hits": _check_rows(names, answer.body)}}

    return CheckingElasticsearch


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
    kind, reason = _cause(body)
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


def _cause(body: Any) -> tuple[str, str]:
    """Return the type and reason of an error's root cause."""
    error: Any = as_map(body).get("error")
    if not isinstance(error, dict):
        return "", str(error or "")[:_MAX_REASON_CHARS]
    causes: list[Any] = [*as_list(as_map(error).get("root_cause"))[:1], error]
    cause = next(as_map(cause) for cause in causes if isinstance(cause, dict))
    return str(cause.get("type", "")), str(cause.get("reason", ""))[:_MAX_REASON_CHARS]


def failure(url: str, what: str, setting: str, *, is_retryable: bool = False) -> ServiceError:
    """Return an error that names the server's setting and the one to check."""
    advice = f" Check {setting} in the settings." if setting else ""
    return ServiceError(f"Elasticsearch ({url}) cannot be searched: {what}.{advice}", is_retryable=is_retryable)


def _check_rows(names: SettingNames, answer: Any) -> list[dict[str, Any]]:
    """Return the rows of a response, each with the number of all matches; raise if the response is incomplete."""
    if not isinstance(answer, dict):
        raise failure(names.url, "its response is not a JSON object", "its address")
    body = as_map(answer)
    if body.get("timed_out"):
        raise failure(names.url, "the search exceeded the server's time limit", "", is_retryable=True)
    shards = as_map(body.get("_shards"))
    failures = shards.get("failed")
    if not isinstance(failures, int):
        raise failure(names.url, "its response is not a search response", "its address")
    if failures:
        reason = _shard_reason(shards)
        raise failure(names.url, f"{failures} of its shards failed{reason}, so chunks are missing", "")
    hits = as_map(body.get("hits"))
    if not isinstance(hits.get("hits"), list):
        raise failure(names.url, "its response has no hits", "its address")
    rows = as_list(hits["hits"])
    total = _total(hits, len(rows))
    return [{**as_map(row), TOTAL: total} if isinstance(row, dict) else {} for row in rows]


def _shard_reason(shards: Mapping[str, Any]) -> str:
    reason = as_map(next(iter(as_list(shards.get("failures"))), None)).get("reason")
    text = as_map(reason).get("reason") if isinstance(reason, dict) else reason
    return f" ({str(text)[:_MAX_REASON_CHARS]})" if text else ""


def _total(hits: Mapping[str, Any], least: int) -> int:
    total = hits.get("total")
    value = as_map(total).get("value") if isinstance(total, dict) else total
    return value if isinstance(value, int) else least
