"""A noisy neighbour: one tenant attacks a server while another one takes ordinary turns.

``python -m tests.campaigns noisy [ATTACK…]`` plays the attacks of `noisy_attacks` on a server with SQLite and Redis,
and prints what the other tenant noticed. Options: ``--seconds N`` for each attack (30) and ``--list``. Exits with 1 if
a goal was missed.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec
from msgspec import Struct

from tests.fakes.canvas import canvas, node, text
from tests.harness.noisy_attacks import ATTACKS, Target
from tests.harness.redis_server import redis_server
from tests.server.cli.command import ROOT, call
from tests.server.queue_processes import end
from tests.server.replicas import Program, Replica, start_replica
from tests.stores import fresh_prefix

HEAP = {"MALLOC_ARENA_MAX": "2", "MALLOC_TRIM_THRESHOLD_": "131072"}
"""As in the image: freed memory goes back to the system."""
PIECES = ", ".join(2_000 * [f'"{"word " * 200}"'])
RULES = f"""
[[rules]]
when.user = "endless"
replies = [{{ text = [{PIECES}] }}]
[[rules]]
replies = [{{ text = ["It ", "is ", "on ", "its ", "way."] }}]
"""
SETTINGS = """
checkpoints = "{redis}"
checkpoint_prefix = "{prefix}"
default_model = "any@Mock"
[providers.Mock]
base_url = "{model}"
[tenants.attacker]
models = ["*"]
runs = 4
[server]
database = "sqlite:///{folder}/server.db"
files = "{folder}/files"
"""
CANVAS = canvas(
    {
        "t": text(["l"], "{% for n in range(3) %}{{ n }} {% endfor %}{sys.query}"),
        "l": node("LLM", {"llm_id": "any@Mock", "prompts": "{t@result}"}, ["m"]),
        "m": node("Message", {"content": ["{l@content}"]}),
    }
)
USERS = 2
PAUSE_S = 0.05
SAVED_EVERY = 20
"""After this number of turns a user saves the agent, so that it is compiled again."""

P99_RATIO = 8.0
HEALTH_MS = 1000.0
RSS_RATIO = 1.4
SETTLE_S = 15.0
"""How long memory may take to come back."""
GRACE_S = 15.0
"""How long an attacker may take to end."""


class Result(Struct):
    """What one attack did. Times are in milliseconds, memory is in MB."""

    name: str
    alone_p99: float = 0.0
    p99: float = 0.0
    turns: int = 0
    errors: list[str] = []
    health_max: float = 0.0
    rss_before: float = 0.0
    rss_after: float = 0.0
    lives: bool = True
    answers: dict[str, int] = {}

    def problems(self) -> list[str]:
        """Return the goals that were missed."""
        goals = {
            "the server ended": self.lives,
            f"P99 {self.p99:.0f} ms, alone {self.alone_p99:.0f} ms": self.p99 <= P99_RATIO * self.alone_p99,
            f"{len(self.errors)} errors": not self.errors,
            f"/health {self.health_max:.0f} ms": self.health_max <= HEALTH_MS,
            f"memory {self.rss_before:.0f} → {self.rss_after:.0f} MB": self.rss_after <= RSS_RATIO * self.rss_before,
        }
        return [problem for problem, is_reached in goals.items() if not is_reached]


@dataclass
class Measured:
    """How long requests took, and what went wrong."""

    seconds: list[float] = field(default_factory=list[float])
    errors: list[str] = field(default_factory=list[str])

    def percentile(self, share: float) -> float:
        """Return a percentile of the times, in milliseconds; 0 without any."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000 if ordered else 0.0


class Stage(Struct):
    """The server, with the neighbour's client, and what the attacker needs."""

    server: Replica
    target: Target
    log: Path

    def rss_mb(self) -> float:
        """Return the resident memory of the server, or 0 if it has ended."""
        try:
            statm = Path(f"/proc/{self.server.process.pid}/statm").read_text()
        except OSError:
            return 0.0
        return int(statm.split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@asynccontextmanager
async def open_stage(folder: Path) -> AsyncGenerator[Stage]:
    """Start a server with a new database, and a model."""
    rules, settings, log = folder / "rules.toml", folder / "settings.toml", folder / "server.log"
    rules.write_text(RULES)
    model = await Program(log=folder / "model.log").start(["mock-llm", rules], folder)
    try:
        assert model.stdout is not None
        address = (await model.stdout.readline()).decode().strip()
        with redis_server() as redis:
            settings.write_text(SETTINGS.format(redis=redis, prefix=fresh_prefix(), model=address, folder=folder))
            server = await start_replica(settings, "", program=Program(environment=HEAP, log=log))
            try:
                words = ("keys", "create", "noisy", "--tenant", "attacker", "--settings", settings)
                key = (await asyncio.to_thread(call, *words)).stdout.strip()
                yield Stage(server, Target(str(server.client.base_url).removesuffix("/api/v1/"), key), log)
            finally:
                await server.client.aclose()
                await end(server.process)
    finally:
        await end(model)


class Neighbour:
    """Takes turns with an agent of its own: new sessions, sessions that go on, and a saved agent now and then."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.body: dict[str, Any] = {"title": f"Parcels {time.time_ns()}", "dsl": CANVAS}
        self.agent = ""

    async def settle(self) -> None:
        """Create the agent, and use what a server loads at its first use."""
        self.agent = (await self.client.post("/agents", json=self.body)).json()["data"]["id"]
        for _ in range(3):
            await self._turn({})

    async def live(self, seconds: float) -> Measured:
        """Play turns as several users for so many seconds, and return what was measured."""
        measured, until = Measured(), time.monotonic() + seconds
        await asyncio.gather(*(self._use(measured, until) for _ in range(USERS)))
        return measured

    async def _use(self, measured: Measured, until: float) -> None:
        number, session = 0, ""
        while time.monotonic() < until:
            number += 1
            began = time.monotonic()
            try:
                if number % SAVED_EVERY == 0:
                    saved = await self.client.put(f"/agents/{self.agent}", json=self.body)
                    require(saved, saved.json()["code"] == 0)
                session = await self._turn({"session_id": session} if session and number % 3 else {})
            except (httpx.HTTPError, ValueError) as error:
                measured.errors.append(f"{type(error).__name__}: {error}"[:300])
            measured.seconds.append(time.monotonic() - began)
            await asyncio.sleep(PAUSE_S)

    async def _turn(self, more: dict[str, Any]) -> str:
        """Play a turn as a stream; return its session."""
        body = {"agent_id": self.agent, "query": "Where is my parcel?", "stream": True, **more}
        response = await self.client.post("/agents/chat/completions", json=body)
        require(response, "workflow_finished" in response.text and "on its way." in response.text)
        return response.text.partition('"session_id"')[2].partition('"')[2].partition('"')[0]


def require(response: httpx.Response, is_right: bool) -> None:
    """Raise ValueError unless an answer is right."""
    if not is_right:
        raise ValueError(f"{response.status_code}: {response.text[-250:]}")


async def probe(url: str, measured: Measured) -> None:
    """Ask for the server's health until cancelled, on a new connection each time."""
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=url, timeout=30, limits=limits) as client:
        while True:
            began = time.monotonic()
            try:
                response = await client.get("/health")
                require(response, response.status_code == 200)
            except (httpx.HTTPError, ValueError) as error:
                measured.errors.append(f"/health: {type(error).__name__}")
            measured.seconds.append(time.monotonic() - began)
            await asyncio.sleep(PAUSE_S)


async def play(stage: Stage, name: str, seconds: float, settle_s: float = SETTLE_S) -> Result:
    """Play an attack on a server that runs."""
    result, neighbour, health = Result(name), Neighbour(stage.server.client), Measured()
    await neighbour.settle()
    alone = await neighbour.live(seconds / 3)
    result.alone_p99, result.rss_before = alone.percentile(0.99), stage.rss_mb()
    command = (sys.executable, "-m", "tests.harness.noisy_attacks", name)
    attacker = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, cwd=ROOT)
    assert attacker.stdin is not None
    assert attacker.stdout is not None
    probing = asyncio.create_task(probe(stage.target.url, health))
    try:
        attacker.stdin.write(msgspec.json.encode(stage.target) + b"\n")
        measured = await neighbour.live(seconds)
        attacker.stdin.close()
        with suppress(TimeoutError, ValueError):
            result.answers = json.loads(await asyncio.wait_for(attacker.stdout.readline(), GRACE_S))
    finally:
        probing.cancel()
        await end(attacker)
    result.p99, result.turns, result.health_max = measured.percentile(0.99), len(measured.seconds), health.percentile(1)
    result.errors = [*alone.errors, *measured.errors, *health.errors]
    until = time.monotonic() + settle_s
    while stage.rss_mb() > RSS_RATIO * result.rss_before and time.monotonic() < until:
        await asyncio.sleep(0.05)
    result.rss_after, result.lives = stage.rss_mb(), stage.server.process.returncode is None
    return result


async def play_all(names: list[str], seconds: float) -> int:
    """Play attacks one after another, and print a row for each; return how many missed a goal."""
    missed = 0
    with tempfile.TemporaryDirectory(prefix="ragflow-lg-noisy-") as folder:
        async with open_stage(Path(folder)) as stage:
            for name in names or ATTACKS:
                result = await play(stage, name, seconds)
                problems = result.problems()
                missed += bool(problems)
                times = f"P99 {result.alone_p99:.0f} → {result.p99:.0f} ms ({result.turns} turns)"
                memory = f"{result.rss_before:.0f} → {result.rss_after:.0f} MB"
                row = (name, times, f"/health {result.health_max:.0f} ms", memory, "; ".join(problems) or "ok")
                sys.stdout.write(f"| {' | '.join(row)} |\n")
                sys.stdout.writelines(f"    {error}\n" for error in result.errors[:3])
                sys.stdout.flush()
    return missed


def main() -> int:
    """Play the chosen attacks; return 1 if a goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns noisy")
    parser.add_argument("attacks", nargs="*", choices=[[], *ATTACKS])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    if arguments.list:
        sys.stdout.write("".join(f"{name}: {attack.summary}\n" for name, attack in ATTACKS.items()))
        return 0
    return 1 if asyncio.run(play_all(arguments.attacks, arguments.seconds)) else 0


if __name__ == "__main__":
    raise SystemExit(main())
