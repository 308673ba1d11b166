from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx
import pytest

from ragflow_lg.adapters.http.http_client import GuardedHttpClient, HttpSettings
from ragflow_lg.adapters.mcp.mcp_http import McpHttpSettings, mcp_http_client
from tests.fakes.http_server import HttpServer, Route

EVENTS = {"Content-Type": "text/event-stream"}
JSON = {"Content-Type": "application/json"}
RESULT = '{"jsonrpc":"2.0","id":7,"result":{}}'
Kind = Literal["sse", "streamable-http"]


@asynccontextmanager
async def client_of(
    route: Route, kind: Kind = "streamable-http", **more: Any
) -> AsyncGenerator[tuple[httpx.AsyncClient, list[tuple[str, int | None]], HttpServer]]:
    """Give a client of one route at ``http://mcp.test/mcp``, and what it tells of its end."""
    lost: list[tuple[str, int | None]] = []
    async with HttpServer([route]).running() as server:
        guarded = GuardedHttpClient(HttpSettings(allow=more.pop("allow", ("mcp.test",))), resolve=server.resolve)
        given: dict[str, Any] = {"headers": {"X-Key": "k"}, "connect_s": 1, "answer_s": 1, "max_bytes": 1000, **more}
        settings = McpHttpSettings("http://mcp.test/mcp", kind, **given)
        async with mcp_http_client(guarded, settings, lambda *told: lost.append(told)) as client, client:
            yield client, lost, server


async def asked(client: httpx.AsyncClient, method: str = "tools/call", id_: int | None = 7) -> httpx.Response:
    message = {"jsonrpc": "2.0", "method": method, **({} if id_ is None else {"id": id_})}
    return await client.post("http://mcp.test/mcp", json=message)


def said(response: httpx.Response) -> str:
    """Give the message of the error that stands in the answer, alone or as the last event."""
    text = response.text.strip().rpartition("data: ")[2]
    message = json.loads(text)
    assert message["id"] == 7
    return message["error"]["message"]


async def test_what_is_sent_is_what_the_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with client_of(Route("/mcp", headers=JSON, body=RESULT)) as (client, lost, server):
        assert (await asked(client)).text == RESULT
    request = server.received[0]
    assert [request.header(name) for name in ("x-key", "user-agent", "accept-encoding")] == [
        "k",
        "ragflow-lg",
        "identity",
    ]
    assert lost == []


async def test_what_may_be_secret_in_the_url_is_only_sent() -> None:
    settings = McpHttpSettings("http://me:geheim@mcp.test/mcp?key=geheim#x", "streamable-http", {}, 1, 1, 1000)
    assert str(settings.public_url) == "http://mcp.test/mcp"
    async with HttpServer([Route("/mcp", headers=JSON, body=RESULT)]).running() as server:
        guarded = GuardedHttpClient(HttpSettings(allow=("mcp.test",)), resolve=server.resolve)
        async with mcp_http_client(guarded, settings, lambda *_: None) as client, client:
            await client.post(settings.public_url, json={})
            await client.post("http://mcp.test/mcp?session=1", json={})
    first, second = server.received
    assert (first.path, second.path) == ("/mcp?key=geheim", "/mcp?session=1")
    assert first.header("authorization") == "Basic bWU6Z2VoZWlt"


async def test_an_address_inside_is_refused() -> None:
    async with client_of(Route("/mcp"), allow=()) as (client, lost, server):
        assert "is refused" in said(await asked(client))
    assert server.received == []
    assert [refused for _, refused in lost] == [7]


async def test_nobody_listening_is_told() -> None:
    async with client_of(Route("/mcp")) as (client, lost, server):
        server.port = 1
        assert said(await asked(client)).startswith("No connection to 'mcp.test'")
    assert [refused for _, refused in lost] == [7]


@pytest.mark.parametrize("status", [400, 401, 403, 500])
async def test_a_status_is_the_answer_of_the_one_who_asked(status: int) -> None:
    async with client_of(Route("/mcp", status=status, body="geheim")) as (client, lost, _):
        text = said(await asked(client))
    assert text.startswith(f"'mcp.test' answered {status}.")
    assert "geheim" not in text
    assert lost == []


async def test_a_session_that_is_forgotten_is_begun_anew() -> None:
    async with client_of(Route("/mcp", status=404)) as (client, lost, _):
        assert "answered 404" in said(await asked(client, "initialize"))
        assert lost == []
        await asked(client)
    assert [refused for _, refused in lost] == [7]


@pytest.mark.parametrize(
    "route",
    [
        Route("/mcp", headers=EVENTS, pieces=[b"event: message\n", b"data: {"], breaks=True),
        Route("/mcp", headers={**JSON, "Content-Length": "900"}, body="{", breaks=True),
        Route("/mcp", headers=EVENTS, body=": nothing\n\n"),
        Route("/mcp", raw=b"HTTP/1.1 200"),
    ],
)
async def test_an_answer_that_breaks_off_is_an_error_at_once(route: Route) -> None:
    async with client_of(route, answer_s=60) as (client, lost, _):
        assert said(await asked(client)).startswith("'mcp.test' ")
    assert lost == []


@pytest.mark.parametrize("border", ["\n\n", "\r\n\r\n", "\r\r"])
async def test_events_are_given_whole_and_each_may_have_the_limit(border: str) -> None:
    event = f"data: {'x' * 900}{border}".encode()
    pieces = [event[:500], event[500:-1], event[-1:] + event * 5]
    async with client_of(Route("/mcp", headers=EVENTS, pieces=pieces, piece_delay_ms=1)) as (client, _, _):
        response = await asked(client)
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
async def test_too_much_is_an_error_of_this_call_only(route: Route) -> None:
    async with client_of(route) as (client, lost, _):
        assert said(await asked(client)) == "The answer is larger than the limit of 1,000 bytes (max_result_bytes)."
    assert lost == []


async def test_a_stream_with_ids_may_be_asked_for_its_rest() -> None:
    route = Route("/mcp", headers=EVENTS, body="id: 5\ndata: {}\n\n")
    async with client_of(route) as (client, _, _):
        assert (await asked(client)).text == route.body


async def test_what_was_not_asked_for_is_not_unpacked() -> None:
    route = Route("/mcp", headers={**JSON, "Content-Encoding": "gzip"}, body=b"\x1f\x8b")
    async with client_of(route) as (client, _, _):
        assert "encoding" in said(await asked(client))


async def test_a_note_that_fails_harms_nobody() -> None:
    async with client_of(Route("/mcp", status=400)) as (client, lost, _):
        assert (await asked(client, "notifications/cancelled", None)).status_code == 202
        assert (await client.get("http://mcp.test/mcp")).status_code == 400
    assert lost == []


@pytest.mark.parametrize("status", [401, 500])
async def test_with_sse_a_status_ends_the_session(status: int) -> None:
    async with client_of(Route("/mcp", status=status), "sse") as (client, lost, _):
        await asked(client, "notifications/cancelled", None)
        assert lost == []
        await asked(client)
        assert lost[0][0].startswith(f"'mcp.test' answered {status}.")
    async with client_of(Route("/mcp", status=status), "sse") as (client, lost, _):
        assert (await client.get("http://mcp.test/mcp")).is_error
        assert len(lost) == 1


@pytest.mark.parametrize("body", ["event: endpoint\ndata: /x\n\n", "id: 1\ndata: {}\n\n", "x" * 2000])
async def test_with_sse_the_end_of_the_stream_ends_the_session(body: str) -> None:
    async with client_of(Route("/mcp", headers=EVENTS, body=body), "sse") as (client, lost, _):
        await client.get("http://mcp.test/mcp")
    assert len(lost) == 1
