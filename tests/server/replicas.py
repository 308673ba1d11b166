"""Server processes that share a database and a Redis, as replicas do."""

import asyncio
import json
import os
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import httpx
from msgspec import Struct

from tests.harness.first_key import read_first_key
from tests.harness.loaded_python import python_command
from tests.server.cli.command import ROOT
from tests.server.http.app_server import canvas
from tests.stores import fresh_prefix

SETTINGS = """
checkpoints = "{redis_url}"
checkpoint_prefix = "{prefix}"
[providers.Mock]
base_url = "{base_url}"
[server]
database = "sqlite:///{folder}/server.db"
[limits]
takeovers = {takeovers}
"""

TWO_MESSAGES = canvas(
    ("begin", "Begin", {}, ["LLM:0"]),
    ("LLM:0", "LLM", {"llm_id": "m", "prompts": [{"role": "user", "content": "one"}]}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["{LLM:0@content}"]}, ["LLM:1"]),
    ("LLM:1", "LLM", {"llm_id": "m", "prompts": [{"role": "user", "content": "two"}]}, ["Message:1"]),
    ("Message:1", "Message", {"content": ["{LLM:1@content}"]}, []),
)


class Program(Struct, frozen=True):
    """The module that a process executes."""

    module: str = "ragflow_lg"
    environment: dict[str, str] = {}
    log: Path | None = None
    """The file for its standard error; by default, that of this process."""

    async def start(self, arguments: Sequence[str | Path], folder: Path) -> Process:
        """Start a process in a folder."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **self.environment}
        command = python_command("-m", self.module, *arguments)
        with nullcontext() if self.log is None else self.log.open("ab") as stderr:
            return await asyncio.create_subprocess_exec(
                *command, stdout=PIPE, stderr=stderr, cwd=folder, env=environment
            )


RAGFLOW_LG = Program()


class Replica(Struct):
    """A server process and a client for it."""

    process: Process
    client: httpx.AsyncClient
    key: str


@asynccontextmanager
async def replicas(
    folder: Path, redis_url: str, base_url: str, count: int = 2, takeovers: int = 2, more: str = "", plays: bool = True
) -> AsyncGenerator[list[Replica]]:
    """Start servers one after the other; the first creates the key. ``more`` is added to their settings.

    They play runs if ``plays`` is set.
    """
    settings = folder / "settings.toml"
    settings.write_text(
        SETTINGS.format(
            redis_url=redis_url, prefix=fresh_prefix(), base_url=base_url, folder=folder, takeovers=takeovers
        )
        + more
    )
    async with running_replicas(settings, count, plays=plays) as servers:
        yield servers


@asynccontextmanager
async def running_replicas(settings: Path, count: int, *, plays: bool = True) -> AsyncGenerator[list[Replica]]:
    """Start servers one after the other; the first creates the key. All servers in the list end with the block."""
    servers: list[Replica] = []
    try:
        for _ in range(count):
            servers.append(await start_replica(settings, servers[0].key if servers else "", plays=plays))
        yield servers
    finally:
        for server in servers:
            await server.client.aclose()
            if server.process.returncode is None:
                server.process.kill()
            await server.process.wait()


async def start_replica(
    settings: Path,
    key: str,
    port: int = 0,
    program: Program = RAGFLOW_LG,
    *,
    plays: bool = True,
    model: str = "any@Mock",
    canvases: Sequence[Path] = (),
) -> Replica:
    """Start a server; without a ``key``, it is the first one and creates the key.

    ``model`` replaces those of the canvases; if it is empty, the settings say which models answer.
    """
    arguments: list[Any] = ["serve", *canvases, "--port", str(port), "--settings", settings]
    arguments += ["--model", model] if model else []
    arguments += [] if plays else ["--no-worker"]
    process = await program.start(arguments, settings.parent)
    assert process.stdout is not None
    try:
        url = (await process.stdout.readline()).decode().strip()
        if not key:
            key = read_first_key(await process.stdout.readline())
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=url, timeout=60) as probe:
            while (await probe.get("/ready")).status_code != 200:
                await asyncio.sleep(0.02)
    except BaseException:  # nobody else knows the process
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    return Replica(process, httpx.AsyncClient(base_url=f"{url}/api/v1", headers=headers, timeout=60), key)


async def read_frames(
    choose: Callable[[], Replica], body: Mapping[str, Any], limit_s: float
) -> AsyncGenerator[tuple[dict[str, Any], int]]:
    """Yield the frames of a turn, each with the number of its connection. Reconnect as often as necessary.

    Raises:
        TimeoutError: if the stream has no end after the limit.
    """
    last, id_, connection, until = "", "", 0, time.monotonic() + limit_s
    while time.monotonic() < until:
        headers = {"X-RAGFlow-Event-Ids": "true", **({"Last-Event-ID": last} if last else {})}
        with suppress(httpx.TransportError):
            async with choose().client.stream("POST", "/agents/chat/completions", json=body, headers=headers) as answer:
                connection += 1
                async for line in answer.aiter_lines():
                    if line.startswith("id:"):
                        id_ = line[3:]
                    elif line == "data:[DONE]":
                        return
                    elif line.startswith("data:"):
                        last = id_ or last
                        yield json.loads(line[5:]), connection
        await asyncio.sleep(0.05)
    raise TimeoutError(f"{body['query']}: no end after {limit_s:g} s")
