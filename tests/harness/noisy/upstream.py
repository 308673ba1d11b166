"""The attacker's model server, whose answers never end: ``python -m tests.harness.noisy.upstream``."""

import asyncio
import os
import sys

PIECE = b'data: {"id": "x", "choices": [{"index": 0, "delta": {"content": "%s"}}]}\n\n' % (b"word " * 200)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        while True:
            writer.write(PIECE)
            await writer.drain()
            await asyncio.sleep(0)
    except (OSError, asyncio.IncompleteReadError):
        writer.close()


async def _main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    sys.stdout.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    os.nice(19)
    asyncio.run(_main())
