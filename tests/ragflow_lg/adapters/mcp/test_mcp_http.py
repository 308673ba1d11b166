import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx
import pytest

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.adapters.mcp.mcp_http import McpHttpSettings, open_http_client
from tests.fakes.http_server import HttpServer, Route

EVENTS = {"Content-Type": "text/event-stream"}
JSON = {"Content-Type": "application/json"}
RESULT = '{"jsonrpc":"2.0","id":7,"result":{}}'
Kind = Literal["sse", "streamable-http"]


@asynccontextmanager
async def client_of(
    route: Route, kind: Kind = "streamable-http", **more: Any
) -> AsyncGenerator[tuple[httpx.AsyncClient, list[tuple[str, int | None]], HttpServer]]:
    """Yield a client of one route at ``http://mcp.test/mcp``, its calls of ``on_lost``, and the server."""
    lost: list[tuple[str, int | None]] = []
    async with HttpServer([route]).running() as server:
        http = GuardedHttpClient(HttpSettings(allow=more.pop("allow", ("mcp.test",))), resolve=server.resolve)
        options: dict[str, Any] = {"headers": {"X-Key": "k"}, "connect_s": 1, "answer_s": 1, "max_bytes": 1000, **more}
        settings = McpHttpSettings("http://mcp.test/mcp", kind, **options)
        async with open_http_client(http, settings, lambda reason, id_: lost.append((reason, id_))) as client, client:
            yield client, lost, server


async def post(client: httpx.AsyncClient, method: str = "tools/call", id_: int | None = 7) -> httpx.Response:
    message = {"jsonrpc": "2.0", "method": method, **({} if id_ is None else {"id": id_})}
    return await client.post("http://mcp.test/mcp", json=message)


def error_of(response: httpx.Response) -> str:
    """Return the error message of a response, which is the whole body or its last event."""
    text = response.text.strip().rpartition("data: ")[2]
    message = json.loads(text)
    assert message["id"] == 7
    return message["error"]["message"]


async def test_requests_have_the_headers_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with client_of(Route("/mcp", headers=JSON, body=RESULT)) as (client, lost, server):
        assert (await post(client)).text == RESULT
    request = server.received[0]
    assert [request.header(name) for name in ("x-key", "user-agent", "accept-encoding")] == [
        "k",
        "ragflow-lg",
        "identity",
    ]
    assert lost == []


async def test_secrets_in_the_url_are_sent_but_not_public() -> None:
    settings = McpHttpSettings("http://me:geheim@mcp.test/mcp?key=geheim#x", "streamable-http", {}, 1, 1, 1000)
    assert str(settings.public_url) == "http://mcp.test/mcp"
    async with HttpServer([Route("/mcp", headers=JSON, body=RESULT)]).running() as server:
        http = GuardedHttpClient(HttpSettings(allow=("mcp.test",)), resolve=server.resolve)
        async with open_http_client(http, settings, lambda reason, id_: None) as client, client:
            await client.post(settings.public_url, json={})
            await client.post("http://mcp.test/mcp?session=1", json={})
    first, second = server.received
    assert (first.path, second.path) == ("/mcp?key=geheim", "/mcp?session=1")
    assert first.header("authorization") == "Basic bWU6Z2VoZWlt"


async def test_internal_addresses_are_refused() -> None:
    async with client_of(Route("/mcp"), allow=()) as (client, lost, server):
        assert "is refused" in error_of(await post(client))
    assert server.received == []
    assert [id_ for _, id_ in lost] == [7]


async def test_a_failed_connection_loses_the_session() -> None:
    async with client_of(Route("/mcp")) as (client, lost, server):
        server.port = 1
        assert error_of(await post(client)).startswith("Cannot connect to 'mcp.test'")
    assert [id_ for _, id_ in lost] == [7]


@pytest.mark.parametrize("status", [400, 401, 403, 500])
async def test_an_error_status_fails_only_its_request(status: int) -> None:
    async with client_of(Route("/mcp", status=status, body="geheim")) as (client, lost, _):
        text = error_of(await post(client))
    assert text.startswith(f"'mcp.test' answered {status}.")
    assert "geheim" not in text
    assert lost == []


async def test_status_404_loses_the_session_after_the_handshake() -> None:
    async with client_of(Route("/mcp", status=404)) as (client, lost, _):
        assert "answered 404" in error_of(await post(client, "initialize"))
        assert lost == []
        await post(client)
    assert [id_ for _, id_ in lost] == [7]


@pytest.mark.parametrize(
    "route",
    [
        Route("/mcp", headers=EVENTS, pieces=[b"event: message\n", b"data: {"], breaks=True),
        Route("/mcp", headers={**JSON, "Content-Length": "900"}, body="{", breaks=True),
        Route("/mcp", headers=EVENTS, body=": nothing\n\n"),
        Route("/mcp", raw=b"HTTP/1.1 200"),
    ],
)
async def test_an_interrupted_response_fails_at_once(route: Route) -> None:
    async with client_of(route, answer_s=60) as (client, lost, _):
        assert error_of(await post(client)).startswith("'mcp.test' ")
    assert lost == []


@pytest.mark.parametrize("border", ["\n\n", "\r\n\r\n", "\r\r"])
async def test_events_are_complete_and_limited_one_by_one(border: str) -> None:
    event = f"data: {'x' * 900}{border}".encode()
    pieces = [event[:500], event[500:-1], event[-1:] + event * 5]

    async with client_of(Route("/mcp", headers=EVENTS, pieces=pieces, piece_delay_ms=1)) as (client, _, _):
        response = await post(client)
    assert response.content.startswith(event * 6)


@pytest.mark.parametrize(
    "route",
    [
        Route("/mcp", headers=EVENTS, pieces=[b"data: 1\n\n", *[b"x" * 400] * 4], piece_delay_ms=1),
        Route("/mcp", headers=EVENTS, pieces=[b"id: 1\ndata:\n\n", *[b"x" * 400] * 4], piece_delay_ms=1),
        Route("/mcp", headers=JSON, pieces=[b"x" * 400] * 4, piece_delay_ms=1),
        Route("/mcp", headers=JSON, body="x" * 5000),
    ],
)
async def test_a_too_large_response_fails_only_its_request(route: Route) -> None:
    async with client_of(route) as (client, lost, _):
        assert error_of(await post(client)) == "The result is larger than the limit of 1,000 bytes (max_result_bytes)."
    assert lost == []


async def test_a_stream_with_event_ids_ends_without_an_error() -> None:
    route = Route("/mcp", headers=EVENTS, body="id: 5\ndata: {}\n\n")
    async with client_of(route) as (client, _, _):
        assert (await post(client)).text == route.body


async def test_compressed_responses_are_rejected() -> None:
    route = Route("/mcp", headers={**JSON, "Content-Encoding": "gzip"}, body=b"\x1f\x8b")
    async with client_of(route) as (client, _, _):
        assert "encoding" in error_of(await post(client))


async def test_a_failed_notification_is_ignored() -> None:
    async with client_of(Route("/mcp", status=400)) as (client, lost, _):
        assert (await post(client, "notifications/cancelled", None)).status_code == 202
        assert (await client.get("http://mcp.test/mcp")).status_code == 400
    assert lost == []


@pytest.mark.parametrize("status", [401, 500])
async def test_with_sse_an_error_status_loses_the_session(status: int) -> None:
    async with client_of(Route("/mcp", status=status), "sse") as (client, lost, _):
        await post(client, "notifications/cancelled", None)
        assert lost == []
        await post(client)
        assert lost[0][0].startswith(f"'mcp.test' answered {status}.")
    async with client_of(Route("/mcp", status=status), "sse") as (client, lost, _):
        assert (await client.get("http://mcp.test/mcp")).is_error
        assert len(lost) == 1


@pytest.mark.parametrize("body", ["event: endpoint\ndata: /x\n\n", "id: 1\ndata: {}\n\n", "x" * 2000])
async def test_with_sse_the_end_of_the_stream_loses_the_session(body: str) -> None:
    async with client_of(Route("/mcp", headers=EVENTS, body=body), "sse") as (client, lost, _):
        await client.get("http://mcp.test/mcp")
    assert len(lost) == 1
