import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.server.http.app_server import start_app


async def test_large_bodies_are_refused_with_and_without_a_length(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ragflow_lg.audit")

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(50):
            yield b"x" * 100

    async with start_app(tmp_path, max_body_bytes=1000) as server:
        for content in (b"x" * 1001, pieces()):
            answer = await server.client.post("/agents", content=content)
            assert (answer.status_code, answer.json()["code"]) == (413, 413)
            assert answer.headers["x-frame-options"] == "DENY"
            event = json.loads(caplog.messages[-1])
            assert (event["event"], event["reason"], event["tenant"]) == ("request.refused", "size", "tenant")
        assert (await server.client.post("/agents", content=b"{}")).json()["code"] == 101


async def test_a_large_body_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    async with start_app(tmp_path, max_body_bytes=1000) as server:
        port = int(server.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = (
            f"POST /api/v1/agents HTTP/1.1\r\nHost: x\r\nAuthorization: {server.key}\r\nContent-Length: 9999999\r\n\r\n"
        )
        writer.write(head.encode().replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
        assert b" 413 " in await asyncio.wait_for(reader.readline(), 60)
        writer.close()


async def test_trailing_slashes_are_ignored(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        assert (await server.client.post("/agents/", json={})).json()["message"] == "No DSL data in request."
        assert (await server.client.get(f"{server.url}/")).json()["name"] == "ragflow-lg"
        assert (await server.client.get(f"{server.url}/nothing/")).json()["code"] == 404
