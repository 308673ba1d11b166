import asyncio
import inspect
import json
import logging
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvloop
from uvicorn.protocols.http import flow_control, h11_impl

from ragflow_lg.server.http.edge import uvicorn_server
from ragflow_lg.server.http.edge.listening_socket import open_socket
from ragflow_lg.server.http.edge.uvicorn_server import count_chunks, start_server
from tests.fakes.services import Reply
from tests.server.http.app_server import MODEL, AppServer, start_app


async def _app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


TWO_LENGTHS = (
    b"content-length: 5\r\ntransfer-encoding: chunked",
    b"transfer-encoding: chunked\r\ncontent-length: 5",
    b"Content-Length: 0\r\nTransfer-Encoding: Chunked",
    b"content-length: 5\r\ntransfer-encoding: gzip, chunked",
    b"content-length: 5\r\ntransfer-encoding : chunked",
    b"content-length: 5\r\ncontent-length: 6",
)


@pytest.mark.parametrize("lengths", TWO_LENGTHS)
async def test_a_request_with_two_lengths_is_refused_and_nothing_behind_it_is_read(
    lengths: bytes, tmp_path: Path
) -> None:
    async with start_app(tmp_path) as server:
        reader, writer = await connect(server)
        hidden = b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n"
        head = b"POST /api/v1/agents HTTP/1.1\r\nhost: a\r\n%b\r\n\r\n0\r\n\r\n" % lengths
        writer.write(head + hidden)
        async with asyncio.timeout(10):
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 400 ") or answer.startswith(b"HTTP/1.1 501 ")
        assert answer.count(b"HTTP/1.1") == 1
        writer.close()


@pytest.mark.parametrize("new_loop", [asyncio.SelectorEventLoop, uvloop.Loop])
def test_a_refused_body_arrives_slowly(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def main() -> None:
        async with start_server(_app, open_socket("127.0.0.1", 0), _end_at_once, 1) as url:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100000000\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 204")
            writer.write(bytes(50_000_000))  # more than the buffers of both ends hold
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(writer.drain(), 0.5)
            writer.transport.abort()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


async def test_a_body_of_many_small_chunks_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with start_app(tmp_path) as server:
        head = (
            b"POST /api/v1/agents HTTP/1.1\r\nhost: a\r\nauthorization: Bearer %b\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        for chunk, answer in ((b" ", b"HTTP/1.1 400 "), (b" " * 100, b"HTTP/1.1 200 ")):
            reader, writer = await connect(server)
            chunks = b"%x\r\n%b\r\n" % (len(chunk), chunk) * 2_000
            writer.write(head % server.key.encode() + chunks + b"2\r\n{}\r\n0\r\n\r\n")
            async with asyncio.timeout(10):
                assert (await reader.readline()).startswith(answer)
                if answer.endswith(b"400 "):
                    assert b"too many small chunks" in await reader.read()
            writer.close()
    assert "Fatal error" not in caplog.text


async def _end_at_once() -> None:
    pass


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
        assert (answer["code"], "shutting down" in answer["message"]) == (500, True)
        assert server.model.requests == []


def test_run_tunes_the_interpreter_for_latency() -> None:
    program = (
        "import asyncio, gc, sys\nfrom ragflow_lg.server.http.edge.uvicorn_server import freeze_objects, run\n"
        "async def main():\n    freeze_objects()\n"
        "    print([base.__module__ for base in type(asyncio.get_running_loop()).__mro__][2])\n"
        "    print(gc.get_threshold()[0], gc.get_freeze_count() > 10_000)\n"
        "    print(sys.getswitchinterval() < 0.005)\nrun(main())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split()[-3:] == ["20000", "True", "True"]
    assert sys.platform == "win32" or done.stdout.startswith("uvloop")


async def connect(server: AppServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))


@pytest.mark.parametrize("sent", ["", "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "])
async def test_a_connection_with_an_incomplete_head_is_closed(
    tmp_path: Path, sent: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with start_app(tmp_path, header_timeout_s=0.1) as server:
        reader, writer = await connect(server)
        writer.write(sent.encode())
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        assert (await server.client.get("/agents")).status_code == 200
    assert any("incomplete request after 0.1 s" in message for message in caplog.messages)


async def test_connections_that_were_opened_together_are_not_closed_in_one_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = iter([0.0, 0.0, 0.0, 1.0])  # each connection has two limits: idle, and with an incomplete request
    monkeypatch.setattr(uvicorn_server, "random", lambda: next(shares, 0.0))
    monkeypatch.setattr(uvicorn_server, "SPREAD", 1_000)
    async with start_app(tmp_path, header_timeout_s=0.1) as server:
        first, _ = await connect(server)
        second, writer = await connect(server)
        assert await asyncio.wait_for(first.read(), 5) == b""
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(second.read(), 0.3)
        writer.close()


async def test_a_slow_second_request_closes_the_connection(tmp_path: Path) -> None:
    async with start_app(tmp_path, header_timeout_s=0.2) as server:
        reader, writer = await connect(server)
        writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await asyncio.wait_for(reader.readuntil(b'{"status":"ok"}'), 5)
        await asyncio.sleep(0.3)  # idle time between requests is not limited
        writer.write(b"GET /health HTTP/1.1\r\n")
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()


async def test_a_slow_body_is_refused(tmp_path: Path) -> None:
    async with start_app(tmp_path, body_timeout_s=0.1) as server:
        reader, writer = await connect(server)
        head = f"POST /api/v1/agents HTTP/1.1\r\nHost: x\r\nAuthorization: {server.key}\r\nContent-Length: 99\r\n\r\n{{"
        writer.write(head.encode())
        assert b" 408 " in await asyncio.wait_for(reader.readline(), 5)
        writer.close()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health HTTP/1.1\r\nHost: x\r\nX-Large: " + b"a" * 400_000,
        b"GET /health HTTP/1.1\r\nHost: x\r\nX-Id: a\x00b\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: x\r\n X-Folded\r\nBad Name: b\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"\x16\x03\x01\x02\x00 not HTTP\r\n\r\n",
    ],
)
async def test_malformed_heads_are_refused_and_logged(
    tmp_path: Path, head: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ragflow_lg.audit")
    async with start_app(tmp_path) as server:
        reader, writer = await connect(server)
        writer.write(head)
        assert b" 400 " in await asyncio.wait_for(reader.readline(), 5)
        writer.close()
    assert json.loads(caplog.messages[-1])["event"] == "connection.refused"


@pytest.mark.parametrize("where", ["headers", "query"])
async def test_large_heads_are_refused(tmp_path: Path, where: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ragflow_lg.audit")
    async with start_app(tmp_path, max_header_bytes=4096) as server:
        large = "a" * 4000
        headers, query = ({"X-Large": large}, "") if where == "headers" else ({}, f"?{large}")
        answer = await server.client.get(f"/agents{query}", headers={**headers, "X-More": "b" * 1000})
        assert (answer.status_code, answer.json()["code"]) == (431, 431)
    assert json.loads(caplog.messages[-1])["event"] == "request.too_large"


async def test_paths_cannot_inject_response_headers(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        for path in ("/api/v1/x%0d%0aX-Evil:%201", "/v1/models/x%0d%0aX-Evil:%201", "/%0aX-Evil: 1"):
            answer = await server.client.get(f"{server.url}{path}")
            assert "x-evil" not in answer.headers


async def test_forged_keys_are_refused_and_not_logged_in_full(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with start_app(tmp_path) as server:
        forged = [server.key[:-1] + "!", server.key.upper(), "ragflow-" + "a" * 43, "x" * 9000, "a\tb", "' OR 1=1 --"]
        for key in forged:
            answer = await server.client.get("/agents", headers={"Authorization": f"Bearer {key}"})
            assert answer.status_code == 401
        refused = [json.loads(message) for message in caplog.messages if '"key.refused"' in message]
        assert len(refused) == len(forged)
        assert refused[0]["beginning"] == server.key[:12]
        assert server.key[:-1] not in caplog.text


async def test_an_agent_of_another_tenant_is_refused_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ragflow_lg.audit")
    async with start_app(tmp_path) as server:
        await server.client.delete("/agents/abc\u2028%0aforged")
    (event,) = [json.loads(message) for message in caplog.messages if '"agent.refused"' in message]
    assert (event["tenant"], event["agent"]) == ("tenant", "abc\u2028\nforged")
    assert "\n" not in caplog.messages[-1]


@pytest.mark.parametrize(
    ("data", "counted"),
    [
        (b"1\r\n \r\n" * 1000, (65, 65)),
        (b"1;name=value\r\n \r\nA\r\n0123456789\r\n0\r\n\r\n", (3, 11)),
        (b"400\r\nonly its beginning has arrived", (1, 1024)),
        (b"no chunk\r\n" * 100, (0, 0)),
        (b"", (0, 0)),
    ],
)
def test_chunks_are_counted_up_to_the_limit(data: bytes, counted: tuple[int, int]) -> None:
    assert count_chunks(data) == counted


def test_uvicorn_has_the_events_that_a_connection_replaces() -> None:
    """A failure means that an upgrade of uvicorn needs more of `asyncio.Event` than its replacement has."""
    source = "".join(inspect.getsource(module) for module in (flow_control, h11_impl))
    for name in ("_is_writable_event", "message_event"):
        assert set(re.findall(rf"\b{name}\.(\w+)", source)) == {"set", "clear", "wait"}
    assert "message_event" in inspect.signature(h11_impl.RequestResponseCycle).parameters
