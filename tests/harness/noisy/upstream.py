"""The hostile server: ``python -m tests.harness.noisy.upstream`` prints its address and runs until it is killed.

It is an OpenAI-compatible model server (``/v1``), some web pages, and MCP servers (``/mcp/…``).
"""

import asyncio
import json
import os
import sys
from collections.abc import Iterable
from typing import Any

from tests.harness.noisy.attacker import LOW_PRIORITY
from tests.harness.noisy.upstream_answers import SLOW, bomb, page, stream, whole

FOREVER_S = 3600.0
_TOOLS: list[Any] = [{"name": "work", "description": "Work.", "inputSchema": {"type": "object", "properties": {}}}]


class Connection:
    """One connection; every response ends it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def serve(self) -> None:
        """Answer one request."""
        try:
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lengths = [line for line in head.lower().split("\r\n") if line.startswith("content-length:")]
            body = await self.reader.readexactly(int(lengths[0].partition(":")[2]) if lengths else 0)
            method, path = head.split(" ", 2)[:2]
            await self._answer(method, path.partition("?")[0], body)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass
        finally:
            self.writer.transport.abort() if self.writer.is_closing() else self.writer.close()

    async def _answer(self, method: str, path: str, body: bytes) -> None:
        name = path.rpartition("/")[2]
        if path == "/v1/chat/completions":
            await self._complete(json.loads(body))
        elif path.startswith("/mcp/"):
            await self._call(name, json.loads(body) if method == "POST" else {})
        elif name == "hang":
            await asyncio.sleep(FOREVER_S)
        elif name == "redirect":
            await self._send("302 Found", "text/plain", [], "Location: /redirect\r\n")
        elif name == "gzip":
            await self._send_bomb("text/plain")
        elif name == "headers":
            self.writer.write(b"HTTP/1.1 200 OK\r\n")
            while True:
                await self._write(b"X-A: " + b"a" * 1000 + b"\r\n")
        elif found := page(name):
            await self._send("200 OK", *found, waits=name in SLOW)
        else:
            await self._send("404 Not Found", "text/plain", [])

    async def _complete(self, request: dict[str, Any]) -> None:
        model = str(request.get("model", ""))
        has_result = request.get("messages", [{}])[-1].get("role") == "tool"
        if model == "hang":
            await asyncio.sleep(FOREVER_S)
        elif model == "gzip":
            await self._send_bomb("text/event-stream")
        elif model == "failure":
            endless = page("endless")
            assert endless
            await self._send("500 Internal Server Error", *endless)
        elif request.get("stream"):
            await self._send("200 OK", "text/event-stream", stream(model, has_result), waits=model in SLOW)
        else:
            await self._send("200 OK", "application/json", whole(model))

    async def _call(self, server: str, message: dict[str, Any]) -> None:
        """Answer as an MCP server: ``hanging`` never does, ``stuck`` and ``large`` do until a tool is called."""
        method = message.get("method", "")
        if server == "hanging":
            await asyncio.sleep(FOREVER_S)
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": message.get("params", {}).get("protocolVersion", "2025-06-18"),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "hostile", "version": "1"},
            },
            "tools/list": {"tools": _TOOLS},
            "tools/call": {"content": [{"type": "text", "text": "ok"}]},
        }
        if method == "tools/call" and server == "stuck":
            await asyncio.sleep(FOREVER_S)
        elif method == "tools/call" and server == "large":
            endless = page("endless")
            assert endless
            await self._send("200 OK", "application/json", endless[1])
        elif method in results:
            answer = {"jsonrpc": "2.0", "id": message.get("id"), "result": results[method]}
            await self._send("200 OK", "application/json", [json.dumps(answer)])
        else:
            await self._send("202 Accepted" if method else "405 Method Not Allowed", "application/json", [])

    async def _send_bomb(self, kind: str) -> None:
        self.writer.write(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Encoding: gzip\r\n\r\n".encode())
        await self._write(bomb())

    async def _send(self, status: str, kind: str, body: Iterable[str], more: str = "", *, waits: bool = False) -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nConnection: close\r\n{more}\r\n"
        self.writer.write(head.encode())
        for piece in body:
            await self._write(piece.encode("utf-8", "replace"))
            if waits:
                await asyncio.sleep(1)

    async def _write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()
        await asyncio.sleep(0)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await Connection(reader, writer).serve()


async def main() -> None:
    """Print the address, and serve."""
    os.nice(LOW_PRIORITY)
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, limit=16 * 1024 * 1024)
    sys.stdout.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
