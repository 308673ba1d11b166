"""Start many turns at once on a server: ``python -m benchmarks.load [TURNS] [STORE…]``.

STORE is ``redis`` (sessions and events in Redis, the rest in an SQLite file), ``sqlite`` (everything in SQLite files)
or ``postgresql`` (sessions and events in Redis, the rest in PostgreSQL). A mock model answers each turn in pieces. The
benchmark prints how many turns failed, and how long they took until their first event and their end.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from tests.harness.database_servers import server as database_server
from tests.harness.redis_server import redis_server

TURNS = 500
STORES = ("sqlite", "redis", "postgresql")
RULES = "[[rules]]\nreplies = [{ text = [" + ", ".join(['"word "'] * 20) + "], piece_delay_s = 0.05 }]\n"
SETTINGS = """
checkpoints = "{sessions}"
[providers.Mock]
base_url = "{model}"
[server]
database = "{database}"
"""
CANVAS: dict[str, Any] = {
    "components": {
        "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["LLM:0"]},
        "LLM:0": {
            "obj": {
                "component_name": "LLM",
                "params": {"llm_id": "m", "prompts": [{"role": "user", "content": "{sys.query}"}]},
            },
            "downstream": ["Message:0"],
        },
        "Message:0": {
            "obj": {"component_name": "Message", "params": {"content": ["{LLM:0@content}"]}},
            "downstream": [],
        },
    }
}
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=None)


@asynccontextmanager
async def _command(*arguments: str) -> AsyncGenerator[Process]:
    command = [sys.executable, "-m", "ragflow_lg", *arguments]
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=DEVNULL)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _read_key(line: str) -> str:
    """Return the key in the file that a line of the server's output names."""
    return Path(line.rpartition(" ")[2]).read_text("utf-8").strip()


async def _read_line(process: Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


def _write(folder: str, name: str, text: str) -> str:
    path = Path(folder, name)
    path.write_text(text)
    return str(path)


async def _play(client: httpx.AsyncClient, agent: str) -> tuple[str, float, float]:
    """Play a turn. Return its problem, or ``""``, and the seconds until its first event and its end."""
    began, first_s, text = time.monotonic(), 0.0, ""
    try:
        async with client.stream(
            "POST", "/api/v1/agents/chat/completions", json={"agent_id": agent, "query": "Hi", "stream": True}
        ) as response:
            async for line in response.aiter_lines():
                first_s = first_s or time.monotonic() - began
                text += line
    except httpx.HTTPError as error:
        return repr(error), first_s, 0.0
    is_well = text.count("word ") >= 20 and "workflow_finished" in text and "**ERROR**" not in text
    return "" if is_well else text[-200:], first_s, time.monotonic() - began


async def load(turns: int, store: str) -> None:
    """Start the turns on a new server and print the results."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        files = f"sqlite:///{folder}"
        sessions = f"{files}/sessions.db" if store == "sqlite" else stack.enter_context(redis_server())
        is_served = store == "postgresql"
        database = stack.enter_context(database_server(store)) if is_served else f"{files}/server.db"
        rules = _write(folder, "rules.toml", RULES)
        model = await _read_line(await stack.enter_async_context(_command("mock-llm", rules)))
        text = SETTINGS.format(sessions=sessions, model=model, database=database)
        arguments = ("serve", "--port", "0", "--model", "any@Mock", "--settings", _write(folder, "settings.toml", text))
        server = await stack.enter_async_context(_command(*arguments))
        base = await _read_line(server)
        key = _read_key(await _read_line(server))
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=base, headers=headers, timeout=600, limits=_LIMITS) as client:
            answer = await client.post("/api/v1/agents", json={"title": "Load", "dsl": CANVAS})
            agent = answer.json()["data"]["id"]
            await _play(client, agent)
            began = time.monotonic()
            results = await asyncio.gather(*(_play(client, agent) for _ in range(turns)))
            total_s = time.monotonic() - began
    problems = [problem for problem, _, _ in results if problem]
    first = statistics.quantiles([first_s for _, first_s, _ in results], n=100)
    end = statistics.quantiles([end_s for _, _, end_s in results], n=100)
    print(f"{store}: {turns} turns at once: {len(problems)} failed, {total_s:.1f} s, {turns / total_s:.1f} turns/s")
    print(f"  first event: median {first[49]:.1f} s, 99 % {first[98]:.1f} s")
    print(f"  end: median {end[49]:.1f} s, 99 % {end[98]:.1f} s")
    for problem, count in Counter(problems).most_common(3):
        print(f"  {count} × {problem}")


async def main(turns: int, stores: Sequence[str]) -> None:
    """Run the benchmark for each store."""
    for store in stores:
        await load(turns, store)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else TURNS, sys.argv[2:] or STORES))
