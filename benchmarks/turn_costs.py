"""What a turn costs each process of a deployment: ``python -m benchmarks.turn_costs [FILE]``.

A real server, one or two real workers, Redis, PostgreSQL and a mock model run on this machine. Turns with a short and
with a long answer are played; from both follow the costs of a turn and of each piece of its answer: processor time of
each process, commands and bytes of Redis, transactions and log of PostgreSQL. FILE gets the figures as JSON, which
``python -m benchmarks.sizing`` reads.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
import msgspec
import psycopg
import redis
from msgspec import Struct

from benchmarks.capacity import CLIENTS, PARTS, REDIS, Costs, Demand, Point, Work
from benchmarks.wire_recording import Recorder
from ragflow_lg.server.devtools.mock_llm.mock_llm_app import mock_app, start_mock_server
from ragflow_lg.server.devtools.mock_llm.rules import Rules
from ragflow_lg.server.http.edge.listening_socket import open_socket
from tests.harness.database_servers import server as database_server
from tests.harness.redis_server import redis_server
from tests.server.http.app_server import canvas
from tests.server.queue_processes import end, start_worker
from tests.server.replicas import Replica, running_replicas

PATH = "/agents/chat/completions"
WARM_UP = 24
IDLE_S = 10.0
TURNS = Work(pieces=20, turns=120, at_once=12)
STREAMS = Work(pieces=400, turns=24, at_once=12)
PIECE_S = 0.005
SETTINGS = """
checkpoints = "{sessions}"
[providers.Mock]
base_url = "{model_url}"
[queue]
url = "{queue}"
[server]
database = "{postgresql}"
journal = "{events}"
"""
_TICKS = os.sysconf("SC_CLK_TCK")
_FIELDS = {
    "commands": "total_commands_processed",
    "bytes_in": "total_net_input_bytes",
    "bytes_out": "total_net_output_bytes",
    "bytes_kept": "used_memory",
}
_CANVAS = canvas(
    ("begin", "Begin", {}, ["LLM:0"]),
    ("LLM:0", "LLM", {"llm_id": "m", "prompts": [{"role": "user", "content": "{sys.query}"}]}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["{LLM:0@content}"]}, []),
)


def _rules() -> Rules:
    def replies(work: Work) -> list[dict[str, Any]]:
        return [{"text": ["word "] * work.pieces, "piece_delay_s": PIECE_S}]

    long = {"when": {"user": {"contains": "long"}}, "replies": replies(STREAMS)}
    return Rules.model_validate({"rules": [long, {"replies": replies(TURNS)}]})


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _process_s(pid: int, *, with_children: bool = False) -> float:
    """Return the processor time of a process, and of those of its children that have ended."""
    return sum(map(int, _stat(pid)[11 : 15 if with_children else 13])) / _TICKS


def _family_s(parent: int) -> float:
    """Return the processor time of a process and all of its children."""
    total = _process_s(parent, with_children=True)
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if int(_stat(int(folder.name))[1]) == parent:
                total += _process_s(int(folder.name))
    return total


def idle_s() -> float:
    """Return how long the processors of this machine have been idle together."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    return (int(fields[3]) + int(fields[4])) / _TICKS


class Stage(Struct):
    """The running processes."""

    server: Replica
    workers: list[asyncio.subprocess.Process]
    redis: dict[str, Any]
    """Clients, by what the server is for."""
    database: Any
    urls: dict[str, str]
    """Where the stores are."""
    agent: str = ""

    def read(self) -> dict[str, float]:
        """Return what has been used until now, by name."""
        infos: dict[str, Mapping[str, Any]] = {part: client.info() for part, client in self.redis.items()}
        postmaster = int(_stat(self.database.info.backend_pid)[1])
        self.database.execute("SELECT pg_stat_force_next_flush()")
        time.sleep(0.1)
        (transactions,) = self.database.execute(
            "SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database"
        ).fetchone()
        (log_bytes,) = self.database.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')").fetchone()
        return {
            "server": _process_s(self.server.process.pid) if self.server.process.returncode is None else 0.0,
            "worker": sum(_process_s(worker.pid) for worker in self.workers),
            **{part: float(info["used_cpu_user"] + info["used_cpu_sys"]) for part, info in infos.items()},
            "postgresql": _family_s(postmaster),
            CLIENTS: time.process_time(),
            **{f"{part}_{name}": float(info[field]) for part, info in infos.items() for name, field in _FIELDS.items()},
            "postgresql_transactions": float(transactions),
            "postgresql_log_bytes": float(log_bytes),
            "idle": idle_s(),
            "elapsed": time.perf_counter(),
        }

    async def play(self, work: Work, query: str) -> list[float]:
        """Play turns, each in a new session. Return the seconds to their first events."""
        left, firsts = iter(range(work.turns)), list[float]()

        async def ask() -> None:
            for _ in left:
                made = await self.server.client.post(f"/agents/{self.agent}/sessions", json={})
                body = {"agent_id": self.agent, "session_id": made.json()["data"]["id"], "query": query, "stream": True}
                began, first, text = time.perf_counter(), 0.0, b""
                async with self.server.client.stream("POST", PATH, json=body, timeout=120) as answer:
                    async for part in answer.aiter_raw():
                        first = first or time.perf_counter() - began
                        text += part
                assert text.count(b'"word ') >= work.pieces, text[-500:]
                assert text.endswith(b"data:[DONE]\n\n"), text[-500:]
                firsts.append(first)

        await asyncio.gather(*(ask() for _ in range(work.at_once)))
        return firsts

    async def end_processes(self) -> None:
        """End the server and the workers. The stores go on."""
        for process in (*self.workers, self.server.process):
            await end(process)
        self.workers.clear()


def open_database(url: str) -> psycopg.Connection[Any]:
    """Connect to PostgreSQL."""
    parts = urlsplit(url)
    return psycopg.connect(
        host=parts.hostname,
        port=parts.port,
        user=parts.username,
        password=unquote(parts.password or ""),
        dbname=parts.path[1:],
        autocommit=True,
    )


@asynccontextmanager
async def open_stage(count: int, recorder: Recorder | None = None) -> AsyncGenerator[Stage]:
    """Start everything, with a number of workers. A recorder is put before the stores."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ragflow-lg-costs-")))
        mock = start_mock_server(mock_app(_rules()), open_socket("127.0.0.1", 0))
        model_url = await stack.enter_async_context(mock)
        urls = {part: _start_redis(stack, folder / part) for part in REDIS}
        urls["postgresql"] = stack.enter_context(database_server("postgresql", ("-cfsync=on",)))
        used = urls
        if recorder is not None:
            used = {part: await stack.enter_async_context(recorder.between(part, url)) for part, url in urls.items()}
        settings = folder / "settings.toml"
        settings.write_text(SETTINGS.format(**used, model_url=model_url))
        (server,) = await stack.enter_async_context(running_replicas(settings, 1))
        server.client.timeout = httpx.Timeout(120)
        workers = [await start_worker(settings, 64) for _ in range(count)]
        database = stack.enter_context(open_database(urls["postgresql"]))
        clients = {part: stack.enter_context(redis.Redis.from_url(url)) for part, url in urls.items() if part in REDIS}
        stage = Stage(server, workers, clients, database, urls)
        stack.push_async_callback(stage.end_processes)
        made = await server.client.post("/agents", json={"title": "costs", "dsl": _CANVAS})
        stage.agent = made.json()["data"]["id"]
        await stage.play(msgspec.structs.replace(TURNS, turns=WARM_UP), "warm")
        yield stage


def _start_redis(stack: AsyncExitStack, folder: Path) -> str:
    folder.mkdir()
    return stack.enter_context(redis_server(folder, options=("--appendfsync", "everysec")))


async def _used(stage: Stage, work: Callable[[], Any]) -> dict[str, float]:
    """Return what is used while ``work`` runs."""
    before = stage.read()
    await work()
    return {name: value - before[name] for name, value in stage.read().items()}


def _demand(idle: float, short: Mapping[str, float], long: Mapping[str, float], name: str) -> Demand:
    """Return what a turn costs without its answer, and what a piece costs, from two kinds of turns.

    ``idle`` is what would have been used without them, in a second.
    """
    one = (short[name] - idle * short["elapsed"]) / TURNS.turns
    other = (long[name] - idle * long["elapsed"]) / STREAMS.turns
    piece = max(0.0, (other - one) / (STREAMS.pieces - TURNS.pieces))
    return Demand(turn=max(0.0, one - piece * TURNS.pieces), piece=piece)


def _point(workers: int, work: Work, used: Mapping[str, float], firsts: Sequence[float]) -> Point:
    busy = sum(used[part] for part in (*PARTS, CLIENTS))
    return Point(
        workers=workers,
        work=work,
        turns_per_s=work.turns / used["elapsed"],
        first_event_s=statistics.median(firsts),
        processors=(busy + used["idle"]) / used["elapsed"],
    )


def _report(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


async def measure(count: int) -> tuple[Costs, list[Point]]:
    """Measure with a number of workers."""
    _report(f"{count} worker(s): start the stores, the server and the workers")
    async with open_stage(count) as stage:
        firsts: dict[str, list[float]] = {}

        async def play(work: Work, query: str) -> None:
            _report(f"{count} worker(s): {work.turns} turns with answers of {work.pieces} pieces")
            firsts[query] = await stage.play(work, query)

        _report(f"{count} worker(s): {IDLE_S:.0f} s without turns")
        idle = await _used(stage, lambda: asyncio.sleep(IDLE_S))
        short = await _used(stage, lambda: play(TURNS, "short"))
        long = await _used(stage, lambda: play(STREAMS, "long"))
    names = [name for name in short if name not in ("idle", "elapsed")]
    at_rest = {name: max(0.0, idle[name] / idle["elapsed"]) for name in names}
    costs = Costs(
        demands={name: _demand(at_rest[name], short, long, name) for name in names},
        idle=at_rest,
        idle_more=dict.fromkeys(names, 0.0),
        load=os.getloadavg()[0],
    )
    return costs, [_point(count, TURNS, short, firsts["short"]), _point(count, STREAMS, long, firsts["long"])]


def _print(costs: Costs, points: Sequence[Point]) -> None:
    print(f"{'':24}{'a turn':>12}{'a piece':>12}{'idle, a second':>16}")
    for name, demand in costs.demands.items():
        unit, scale = ("", 1) if "_" in name else (" ms", 1000)
        row = f"{demand.turn * scale:>12,.2f}{demand.piece * scale:>12,.3f}{costs.idle[name] * scale:>16,.1f}"
        print(f"{name:24}{row}{unit}")
    for point in points:
        print(
            f"{point.workers} worker(s), answers of {point.work.pieces} pieces: {point.turns_per_s:.1f} turns/s, "
            f"first event {point.first_event_s * 1000:.0f} ms, on {point.processors:.2f} processors"
        )
    print(f"load average {costs.load:.1f}")


def main() -> None:
    """Measure with one and with two workers, print the figures, and store them.

    The costs are those of two workers: one worker gets more pieces at once, and handles them together for less.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.turn_costs", description="What a turn costs each part.")
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE.json", help="where to store the costs")
    file: Path | None = parser.parse_args().file
    if file is not None and not os.access(file.parent, os.W_OK):
        parser.error(f"{file} cannot be written")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the processes end with this one
    results = [asyncio.run(measure(count)) for count in (1, 2)]
    for costs, points in results:
        _print(costs, points)
    if file is not None:
        (one, _), (two, _) = results
        more = {name: max(0.0, two.idle[name] - rest) for name, rest in one.idle.items()}
        points = [point for _, points in results for point in points]
        costs = msgspec.structs.replace(two, idle=one.idle, idle_more=more, points=points)
        file.write_bytes(msgspec.json.format(msgspec.json.encode(costs), indent=1) + b"\n")


if __name__ == "__main__":
    main()
