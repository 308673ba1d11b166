import json
from typing import Any

import pytest

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.elasticsearch.connection import Connection, ElasticsearchSettings
from ragflow_lg.integrations.elasticsearch.search_requests import Scope, build_filter_request
from tests.fakes.elasticsearch import HEADERS, FakeElasticsearch
from tests.fakes.http_server import Route
from tests.fakes.services import ScriptedHttp
from tests.harness.ragflow_index import create_index
from tests.harness.rows import each_row
from tests.harness.sample_chunks import chunks_of_tenant

BODY = build_filter_request(Scope(("kb-guide",)), 3)


def error_route(status: int, kind: str, reason: str) -> Route:
    cause = {"type": kind, "reason": reason}
    return Route("", status=status, headers=HEADERS, body=json.dumps({"error": {"root_cause": [cause], **cause}}))


JSON_LESS = Route("", headers={"Content-Type": "application/json"}, body="{}")
DIMENSIONS = "vector has a different dimension [8] than [4]"
FAULTS: list[tuple[Any, str]] = [
    (error_route(401, "security_exception", "bad credentials"), r"bad credentials.*api_key"),
    (error_route(403, "security_exception", "no right"), r"reading ragflow_t1 is not allowed.*api_key"),
    (error_route(404, "index_not_found_exception", "no such index [x]"), r"no such index.*tenant in"),
    (error_route(400, "media_type_header_exception", "Invalid"), r"not supported by the client for Elasticsearch 8"),
    (error_route(406, "", ""), r"version is not supported by the client for Elasticsearch 8"),
    (JSON_LESS, "at its address is not Elasticsearch 8"),
    (error_route(429, "circuit_breaking_exception", "too large"), r"is unavailable \(429: too large\)"),
    (error_route(503, "cluster_block_exception", ""), r"is unavailable \(503: cluster_block"),
    (error_route(400, "parsing_exception", "odd"), r"rejects the search \(400 parsing_exception: odd\)"),
    (error_route(400, "illegal_argument_exception", DIMENSIONS), r"different dimension.*embedding_model in \[datasets"),
    (Route("", headers={**HEADERS, "Content-Type": "text/html"}, body="<html>"), "not a JSON object"),
    (Route("", headers={**HEADERS, "Content-Type": "image/png"}, body="x"), "response cannot be parsed"),
    (Route("", headers=HEADERS, body="{"), "response cannot be parsed"),
    (Route("", headers=HEADERS, body="[]"), "not a JSON object"),
    (Route("", raw=b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"), "valid, complete HTTP"),
    ({"timed_out": True}, "exceeded the server's time limit"),
    ({"_shards": {"total": 2, "failed": 1, "failures": [{"reason": {"reason": "disk"}}]}},
     r"1 of its shards failed \(disk\), so chunks are missing"),
    ({"_shards": None}, "not a search response"),
    ({"hits": {}}, "has no hits"),
    ({"hits": {"hits": [{"_id": 7}]}}, "hit has no id"),
    ({"hits": {"hits": [{"_id": "a", "_score": 1, "_source": []}]}}, "hit has no id"),
]  # fmt: skip


@each_row(("fault", "text"), FAULTS)
async def test_an_invalid_response_is_an_error_with_its_cause(fake: FakeElasticsearch, fault: Any, text: str) -> None:
    fake.spoil = None
    await create_index(fake.url, "ragflow_t1", [8], chunks_of_tenant("t1"))
    fake.spoil = lambda answer: fault if isinstance(fault, Route) else {**answer, **fault}
    http = GuardedHttpClient(HttpSettings(allow=("127.0.0.1",)))
    connection = Connection(ElasticsearchSettings(fake.url), http)
    with pytest.raises(ServiceError, match=text) as caught:
        await connection.search(["ragflow_t1"], BODY)
    assert "[knowledge] url" in str(caught.value)
    await connection.aclose()
    await http.aclose()


@each_row(
    ("url", "allow", "text"),
    [("http://127.0.0.1:1", ("127.0.0.1",), "127.0.0.1"), ("http://127.0.0.1:9", (), r"\[http\] allow")],
)
async def test_an_unreachable_server_is_an_error(url: str, allow: tuple[str, ...], text: str) -> None:
    connection = Connection(ElasticsearchSettings(url), GuardedHttpClient(HttpSettings(allow=allow)))
    with pytest.raises(ServiceError, match=text) as caught:
        await connection.search(["ragflow_t1"], BODY)
    assert "[knowledge] url" in str(caught.value)


async def test_a_retryable_failure_is_retried_once() -> None:
    url = "http://es.local:9200"
    http = ScriptedHttp({f"{url}/ragflow_t1/_search": ServiceError("'es.local' did not answer.", is_retryable=True)})
    with pytest.raises(ServiceError, match=r"\[knowledge\] url.*did not answer") as caught:
        await Connection(ElasticsearchSettings(url, timeout_s=7), http).search(["ragflow_t1"], BODY)
    assert caught.value.is_retryable
    assert [request.timeout_s for request in http.requests] == [7, 7]


async def test_credentials_are_sent_to_the_server_and_absent_from_the_repr(fake: FakeElasticsearch) -> None:
    await create_index(fake.url, "ragflow_t1", [8], chunks_of_tenant("t1"))
    http = GuardedHttpClient(HttpSettings(allow=("127.0.0.1",)))
    for settings, expected in (
        (ElasticsearchSettings(fake.url, api_key="k3y"), "ApiKey k3y"),
        (ElasticsearchSettings(fake.url.replace("http://", "http://us%40er:pa%3Ass@")), "Basic dXNAZXI6cGE6c3M="),
    ):
        connection = Connection(settings, http)
        assert (await connection.search(["ragflow_t1"], BODY)).total == 5
        assert fake.received[-1].header("authorization") == expected
        assert "k3y" not in repr(settings)
        assert "pa" not in repr(settings)
        await connection.aclose()
    await http.aclose()
