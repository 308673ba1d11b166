"""Compare the HTTP server with a minimal server for the same graph: ``python -m benchmarks.server [PART…]``.

The parts are ``turn`` and ``first`` (how soon the first event comes); by default, both.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from msgspec import Struct

from benchmarks import canvases
from benchmarks.server_apps import canvas

TURNS = 60
AT_ONCE = 8
ROUNDS = 5
OPEN = 100
STARTS = 60
STARTS_PER_S = 10.0
COMPLETIONS = "/api/v1/agents/chat/completions"
_LEAVING = {"X-RAGFlow-On-Disconnect": "cancel"}
"""Ends the run when its client disconnects, so that the number of open runs stays constant."""
_LIMITS = httpx.Limits(max_connections=1000, max_keepalive_connections=1000)


class Server(Struct):
    """A server process and its client."""

    process: Process
    client: httpx.AsyncClient

    def cpu_s(self) -> float:
        """Return the process's CPU time."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def agent(self, document: dict[str, Any], title: str) -> str:
        """Create an agent and return its id."""
        answer = await self.client.post("/api/v1/agents", json={"title": title, "dsl": document})
        return answer.json()["data"]["id"]


@asynccontextmanager
async def start_server(which: str, folder: Path) -> AsyncGenerator[Server]:
    """Start a server from `benchmarks.server_apps` in a separate process."""
    command = [sys.executable, "-m", "benchmarks.server_apps", which, str(folder)]
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stdin=PIPE)
    assert process.stdout is not None
    url, key = (await process.stdout.readline()).decode().split()
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=120, limits=_LIMITS) as client:
        try:
            yield Server(process, client)
        finally:
            process.kill()
            await process.wait()


async def play(server: Server, path: str, body: dict[str, Any], turns: int) -> tuple[float, float]:
    """Run turns, `AT_ONCE` of them in parallel; return turns per second and CPU milliseconds per turn."""
    left = iter(range(turns))

    async def ask() -> None:
        for _ in left:
            answer = await server.client.post(path, json=body)
            assert answer.text.endswith("data:[DONE]\n\n"), answer.text

    start, cpu = time.perf_counter(), server.cpu_s()
    await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
    return turns / (time.perf_counter() - start), (server.cpu_s() - cpu) / turns * 1000


async def first_event(server: Server, body: dict[str, Any], streams: list[Any], path: str = COMPLETIONS) -> float:
    """Start a run and return the milliseconds to its first event; append the open stream to ``streams``."""
    start = time.perf_counter()
    request = server.client.build_request("POST", path, json=body, headers=_LEAVING)
    answer = await server.client.send(request, stream=True)
    lines = answer.aiter_raw()
    await anext(lines)
    elapsed_ms = (time.perf_counter() - start) * 1000
    streams.append(asyncio.create_task(_drink(answer, lines)))
    return elapsed_ms


async def _drink(answer: httpx.Response, lines: Any) -> float:
    """Read a stream, and return when it has ended."""
    try:
        async for _ in lines:
            pass
    except httpx.HTTPError:
        pass  # the server was stopped
    finally:
        await answer.aclose()
    return time.perf_counter()


async def _compare() -> None:
    """Print our figures, and times those of the small server with our saver and with LangGraph's."""
    names = ("ours", "theirs", "bare")
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        async with (
            start_server("ours", Path(folder)) as ours,
            start_server("theirs", Path(folder)) as theirs,
            start_server("bare", Path(folder)) as bare,
        ):
            agent = {"agent_id": await ours.agent(canvas(), "Chain"), "query": "q", "stream": True}
            for number in range(ROUNDS + 1):
                for name, server in zip(names, (ours, theirs, bare), strict=True):
                    path, body = (COMPLETIONS, agent) if name == "ours" else ("/chat", {"query": "q"})
                    figure = await play(server, path, body, TURNS if number else 20)
                    if number:
                        figures[name].append(figure)
    for index, (name, unit) in enumerate((("turns", "/s"), ("processor", "ms a turn"))):
        mine = [figure[index] for figure in figures["ours"]]
        print(f"{name}: {statistics.median(mine):.1f} {unit}")
        for other, label in (("theirs", "by hand, our saver"), ("bare", "by hand, LangGraph's saver")):
            values = [figure[index] for figure in figures[other]]
            ratio = statistics.median(a / b for a, b in zip(mine, values, strict=True))
            print(f"  {label:26} {statistics.median(values):8.1f} {unit:10} ratio {ratio:.2f}")


async def _first_events() -> None:
    with tempfile.TemporaryDirectory() as name:
        async with start_server("ours", Path(name)) as server:
            body = {"agent_id": await server.agent(canvases.streaming(), "Slow"), "query": "q", "stream": True}
            streams: list[Any] = []
            for _ in range(OPEN):
                await first_event(server, body, streams)
            times: list[Any] = []
            start = time.perf_counter()
            for number in range(STARTS):
                await asyncio.sleep(max(0.0, start + number / STARTS_PER_S - time.perf_counter()))
                times.append(asyncio.create_task(first_event(server, body, streams)))
                # Close the oldest stream to keep their number constant.
                streams.pop(0).cancel()
            _print_times("10 starts a second, 100 runs open", await asyncio.gather(*times))
            for task in streams:
                task.cancel()


def _print_times(name: str, times: Sequence[float]) -> None:
    ordered = sorted(times)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    print(f"first event, {name}: median {statistics.median(ordered):.0f} ms, P99 {p99:.0f} ms")


PARTS = {"turn": _compare, "first": _first_events}


async def _main(parts: Sequence[str]) -> None:
    for name, measure in PARTS.items():
        if not parts or name in parts:
            await measure()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server", description="Compare with a minimal server.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join(PARTS)}; default: all")
    parts = parser.parse_args().parts
    if unknown := set(parts) - {*PARTS}:
        parser.error(f"there is no part {', '.join(sorted(unknown))}; use {', '.join(PARTS)}")
    asyncio.run(_main(parts))
