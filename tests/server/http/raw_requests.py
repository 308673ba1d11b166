"""Requests whose bodies do not end."""

import asyncio
import re

import pytest

from tests.server.http.app_server import AppServer


async def send_unfinished(server: AppServer, method: str, path: str, *headers: str, body: bytes = b"") -> str:
    """Send a request and only the beginning of its body. Return the response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    writer.write("\r\n".join((f"{method} {path} HTTP/1.1", "Host: x", *headers, "", "")).encode() + body)
    try:
        begin = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        length = re.search(rb"content-length: (\d+)", begin)
        return (begin + (await asyncio.wait_for(reader.readexactly(int(length[1]) if length else 0), 10))).decode()
    except TimeoutError:
        pytest.fail(f"{method} {path} waits for its body")
    finally:
        writer.close()
