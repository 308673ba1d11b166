import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.http.edge import request_middleware, uvicorn_server
from ragflow_lg.server.http.edge.uvicorn_server import open_socket, start_server
from tests.fakes.services import Reply
from tests.server.http.app_server import MODEL, AppServer, start_app
from tests.server.waiting import wait_while


async def _app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def test_a_request_with_two_lengths_is_refused_and_nothing_behind_it_is_read(server: AppServer) -> None:
    for lengths in (
        b"content-length: 5\r\ntransfer-encoding: chunked",
        b"transfer-encoding: chunked\r\ncontent-length: 5",
        b"Content-Length: 0\r\nTransfer-Encoding: Chunked",
        b"content-length: 5\r\ntransfer-encoding: gzip, chunked",
        b"content-length: 5\r\ntransfer-encoding : chunked",
        b"content-length: 5\r\ncontent-length: 6",
    ):
        reader, writer = await connect(server)
        head = b"POST /api/v1/agents HTTP/1.1\r\nhost: a\r\n%b\r\n\r\n0\r\n\r\n" % lengths
        writer.write(head + b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), 60)
        assert (answer[:13] in (b"HTTP/1.1 400 ", b"HTTP/1.1 501 "), answer.count(b"HTTP/1.1")) == (True, 1), lengths
        writer.close()


@pytest.mark.parametrize(("drain_s", "is_stopped"), [(0.05, False), (60, True)])
async def test_the_draining_is_limited_in_time(drain_s: float, is_stopped: bool) -> None:
    stop_now = asyncio.Event()
    if is_stopped:
        stop_now.set()

    async def drain() -> None:
        await asyncio.Event().wait()

    async with (
        asyncio.timeout(10),
        start_server(_app, open_socket("127.0.0.1", 0), drain, drain_s, stop_now) as url,
        httpx.AsyncClient() as client,
    ):
        assert (await client.get(url)).status_code == 204


async def test_a_drained_server_refuses_runs(tmp_path: Path) -> None:
    async with start_app(tmp_path, [Reply("one")]) as server:
        agent_id = await server.agent(MODEL)
        await server.app_state.run_manager.drain()
        answer = await server.ask(agent_id, stream=True)
        assert (answer["code"], "shutting down" in answer["message"], server.model.requests) == (500, True, [])


async def connect(server: AppServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))


@pytest.mark.parametrize("sent", ["", "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "])
async def test_a_connection_with_an_incomplete_head_is_closed(
    server: AppServer, sent: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(uvicorn_server, "HEADER_S", 0.1)
    reader, writer = await connect(server)
    writer.write(sent.encode())
    assert await asyncio.wait_for(reader.read(), 60) == b""
    writer.close()
    assert (await server.client.get("/agents")).status_code == 200
    assert any("incomplete request after 0.1 s" in message for message in caplog.messages)


async def test_a_slow_second_request_closes_the_connection(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uvicorn_server, "HEADER_S", 0.2)
    reader, writer = await connect(server)
    writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert await asyncio.wait_for(reader.readuntil(b'{"status":"ok"}'), 60)
    await asyncio.sleep(0.3)  # idle time between requests is not limited
    writer.write(b"GET /health HTTP/1.1\r\n")
    assert await asyncio.wait_for(reader.read(), 60) == b""
    writer.close()


async def test_a_slow_body_is_refused(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_middleware, "BODY_S", 0.1)
    reader, writer = await connect(server)
    head = f"POST /api/v1/agents HTTP/1.1\r\nHost: x\r\nAuthorization: {server.key}\r\nContent-Length: 99\r\n\r\n{{"
    writer.write(head.encode())
    assert b" 408 " in await asyncio.wait_for(reader.readline(), 60)
    writer.close()


async def test_malformed_heads_are_refused_and_logged(server: AppServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ragflow_lg.audit")
    start = b"GET /health HTTP/1.1\r\nHost: x\r\n"
    for number, head in enumerate(
        (
            start + b"X-Large: " + b"a" * 400_000,
            start + b"X-Id: a\x00b\r\n\r\n",
            start + b" X-Folded\r\nBad Name: b\r\n\r\n",
            start + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
            b"\x16\x03\x01\x02\x00 not HTTP\r\n\r\n",
        ),
        1,
    ):
        reader, writer = await connect(server)
        writer.write(head)
        assert b" 400 " in await asyncio.wait_for(reader.readline(), 60)
        writer.close()
        await wait_while(lambda: caplog.text.count('"connection.refused"') < number)  # noqa: B023 - it is awaited


@pytest.mark.parametrize("where", ["headers", "query"])
async def test_large_heads_are_refused(tmp_path: Path, where: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ragflow_lg.audit")
    async with start_app(tmp_path) as server:
        large = "a" * 32_000
        headers, query = ({"X-Large": large}, "") if where == "headers" else ({}, f"?{large}")
        answer = await server.client.get(f"/agents{query}", headers={**headers, "X-More": "b" * 1000})
        assert (answer.status_code, answer.json()["code"]) == (431, 431)
    assert json.loads(caplog.messages[-1])["event"] == "request.too_large"


async def test_forged_keys_are_refused_and_not_logged(server: AppServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    forged = [server.key[:-1] + "!", server.key.upper(), "ragflow-" + "a" * 43, "x" * 9000, "a\tb", "' OR 1=1 --"]
    for key in forged:
        assert (await server.client.get("/agents", headers={"Authorization": f"Bearer {key}"})).status_code == 401
    refused = [json.loads(message) for message in caplog.messages if '"key.refused"' in message]
    assert len(refused) == len(forged)
    assert refused[0]["beginning"] == server.key[:12]
    assert server.key[:-1] not in caplog.text


async def test_agents_of_others_and_injected_paths(server: AppServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ragflow_lg.audit")
    await server.client.delete("/agents/abc\u2028%0aforged")
    (event,) = [json.loads(message) for message in caplog.messages if '"agent.refused"' in message]
    assert (event["tenant"], event["agent"]) == (server.tenant, "abc\u2028\nforged")
    assert "\n" not in caplog.messages[-1]
    for path in ("/api/v1/x%0d%0aX-Evil:%201", "/v1/models/x%0d%0aX-Evil:%201", "/%0aX-Evil: 1"):
        assert "x-evil" not in (await server.client.get(f"{server.url}{path}")).headers


async def test_an_address_that_is_unavailable_is_refused() -> None:
    with open_socket("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        for option in ("--port", "metrics_address"):
            expected = f"127.0.0.1 port {port}: address already in use. Choose another {option}, or 0 for a free port."
            with pytest.raises(SettingsError, match=expected):
                open_socket("127.0.0.1", port, option)


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_an_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(SettingsError, match=f"Cannot listen on {host} port 0: .+ Name an address of this machine."):
        open_socket(host, 0)
