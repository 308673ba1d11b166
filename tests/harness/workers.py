"""Kill workers and servers under open streams: ``python -m tests.campaigns workers [TURNS] [SEED] [EVERY_S] [KILLS]``.

Two servers and three workers share PostgreSQL and Redis. While clients take TURNS turns, and more until KILLS processes
have been killed, a worker or a server is killed EVERY_S seconds after the one before has been replaced. Every stream
must end with its right answer exactly once, and no effect (a call of a service or a model) may be repeated once the
next one has begun.
"""

import asyncio
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import httpx
from redis.asyncio import Redis

from ragflow_lg.integrations.mock_model.rules import Rules
from tests.harness.death_stage import Effects
from tests.harness.shared_services import start_shared_services
from tests.server.http.app_server import canvas
from tests.server.queue_processes import end, start_worker
from tests.server.replicas import Replica, read_frames, running_replicas, start_replica

LIMIT_S = 60.0
AT_ONCE = 12
WORKERS, SERVERS = 3, 2
CONCURRENCY = 4
"""So that every worker plays runs: together they can play as many as are taken at once."""
PIECE_S = 0.05
PIECES = [f"w{number} " for number in range(8)]
MORE_SETTINGS = """
[queue]
url = "{redis_url}"
[limits]
takeovers = 10
"""


def _steps(address: str) -> dict[str, Any]:
    """Return a canvas of four effects in turn: a service, a model, a service, a model."""

    def call(name: str, to: str) -> tuple[str, str, dict[str, Any], list[str]]:
        variables = [{"key": "turn", "ref": "sys.query", "value": ""}]
        params = {"url": f"{address}/{name}", "method": "get", "variables": variables}
        return f"Invoke:{name}", "Invoke", params, [to]

    def model(name: str, to: str) -> tuple[str, str, dict[str, Any], list[str]]:
        prompts = [{"role": "user", "content": f"{name} for {{sys.query}}."}]
        return f"LLM:{name}", "LLM", {"llm_id": "m", "prompts": prompts}, [to]

    return canvas(
        ("begin", "Begin", {}, ["Invoke:1"]),
        call("1", "LLM:2"),
        model("2", "Message:0"),
        ("Message:0", "Message", {"content": ["{sys.query}: {LLM:2@content}"]}, ["Invoke:3"]),
        call("3", "LLM:4"),
        model("4", "Message:1"),
        ("Message:1", "Message", {"content": ["and {LLM:4@content}"]}, []),
    )


def _answer(turn: str) -> str:
    return f"{turn}: {''.join(PIECES)}and {''.join(PIECES)}"


@dataclass
class Stream:
    """What one client has received, over all of its connections."""

    run: str = ""
    text: str = ""
    ends: int = 0
    times: list[float] = field(default_factory=list[float])

    def gap_s(self) -> float:
        """Return the longest time without a frame."""
        return max((later - at for at, later in pairwise(self.times)), default=0.0)


@dataclass
class Tally:
    """The results of all turns."""

    turns: int = 0
    kills: int = 0
    problems: list[str] = field(default_factory=list[str])
    takeovers_s: list[float] = field(default_factory=list[float])

    def percentile(self, part: float) -> float:
        times = sorted(self.takeovers_s)
        return times[min(int(len(times) * part), len(times) - 1)] if times else 0.0


async def _take_turn(servers: list[Replica], agent: str, turn: str, chance: random.Random) -> Stream:
    """Take a turn in a new session, reconnecting as often as necessary."""
    stream, session, until = Stream(), "", time.monotonic() + LIMIT_S
    while not session and time.monotonic() < until:
        with suppress(httpx.TransportError, KeyError, TypeError):
            made = await chance.choice(servers).client.post(f"/agents/{agent}/sessions", json={})
            session = made.json()["data"]["id"]
    body = {"agent_id": agent, "session_id": session, "query": turn, "stream": True}
    async for frame, _ in read_frames(lambda: chance.choice(servers), body, LIMIT_S):
        stream.times.append(time.monotonic())
        stream.run = frame.get("message_id", stream.run)
        stream.ends += frame.get("event") == "workflow_finished"
        if frame.get("event") == "message":
            stream.text += frame["data"]["content"]
    return stream


@dataclass
class Stage:
    """The processes and what they share."""

    settings: Path
    servers: list[Replica]
    workers: list[asyncio.subprocess.Process]
    effects: Effects
    redis_url: str
    prefix: str
    chance: random.Random

    async def kill_one(self, number: int) -> None:
        """Kill a worker, kill a server or stop a worker in order, in turn, and start another one."""
        if number % 3 == 2:
            victim = self.servers.pop(self.chance.randrange(len(self.servers)))
            victim.process.kill()
            await victim.process.wait()
            await victim.client.aclose()
            self.servers.append(await start_replica(self.settings, victim.key))
            return
        worker = self.workers.pop(self.chance.randrange(len(self.workers)))
        worker.send_signal(signal.SIGKILL if number % 3 == 1 else signal.SIGTERM)
        code = await worker.wait()
        if number % 3 == 0 and code:
            raise AssertionError(f"a worker that was stopped in order ended with the code {code}")
        self.workers.append(await start_worker(self.settings, CONCURRENCY))

    async def was_taken_over(self, run: str) -> bool:
        """Return whether a run has changed its worker."""
        async with Redis.from_url(self.redis_url) as client:  # pyright: ignore[reportUnknownMemberType]
            head: Any = await client.get(f"{self.prefix}agent:events-head:{run}")
        return head is not None and json.loads(head)["takeovers"] > 0


async def _open_stage(stack: AsyncExitStack, folder: Path, seed: int, worker_count: int) -> Stage:
    effects = Effects()
    await stack.enter_async_context(effects.running())
    replies = [{"text": PIECES, "piece_delay_s": PIECE_S}]
    rules = Rules.model_validate({"rules": [{"replies": replies}]})
    settings, redis_url, prefix = await start_shared_services(stack, folder, rules, effects.record_model, MORE_SETTINGS)
    servers = await stack.enter_async_context(running_replicas(settings, SERVERS))
    workers: list[asyncio.subprocess.Process] = []

    async def stop_workers() -> None:
        for process in workers:
            await end(process)

    stack.push_async_callback(stop_workers)
    workers += await asyncio.gather(*(start_worker(settings, CONCURRENCY) for _ in range(worker_count)))
    return Stage(settings, servers, workers, effects, redis_url, prefix, random.Random(seed))


async def _kill_forever(stage: Stage, tally: Tally, every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        tally.kills += 1
        await stage.kill_one(tally.kills)


async def disturb(
    turns: int,
    seed: int,
    every_s: float = 10.0,
    report: Callable[[str], object] = sys.stdout.write,
    workers: int = WORKERS,
    kills: int = 0,
) -> Tally:
    """Take turns while processes are killed, until there are enough of both; return the results."""
    tally, numbers = Tally(), count()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ragflow-lg-workers-")))
        stage = await _open_stage(stack, folder, seed, workers)
        document = _steps(f"http://127.0.0.1:{stage.effects.port}")
        made = await stage.servers[0].client.post("/agents", json={"title": "steps", "dsl": document})
        agent = made.json()["data"]["id"]

        async def play(number: int) -> None:
            turn = f"turn{number}"
            try:
                stream = await _take_turn(stage.servers, agent, turn, stage.chance)
            except TimeoutError as error:
                tally.problems.append(str(error))
                return
            tally.turns += 1
            if stream.text != _answer(turn) or stream.ends != 1:
                tally.problems.append(f"{turn}, run {stream.run}: {stream.ends} ends, {stream.text!r}")
            if await stage.was_taken_over(stream.run):
                tally.takeovers_s.append(stream.gap_s())
                report(f"{turn} was taken over; longest time without a frame: {stream.gap_s():.2f} s\n")

        async def play_many() -> None:
            while (number := next(numbers)) < turns or tally.kills < kills:
                await play(number)

        killing = asyncio.create_task(_kill_forever(stage, tally, every_s))
        try:
            await asyncio.gather(*(play_many() for _ in range(AT_ONCE)))
        finally:
            killing.cancel()
            with suppress(asyncio.CancelledError):
                await killing  # it raises the error of a process that did not start or stop
        tally.problems += [f"repeated: {each}" for each in stage.effects.repeated()]
    return tally


def main() -> int:
    """Print the problems and the times; return 1 if there is a problem."""
    defaults = ("300", "0", "10", "0")
    turns, seed, every_s, kills = [*sys.argv[1:], *defaults[len(sys.argv) - 1 :]][:4]
    tally = asyncio.run(disturb(int(turns), int(seed), float(every_s), kills=int(kills)))
    for problem in tally.problems:
        sys.stdout.write(f"{problem}\n")
    sys.stdout.write(
        f"{tally.turns} turns, {tally.kills} processes killed, {len(tally.takeovers_s)} takeovers: "
        f"P50 {tally.percentile(0.5):.2f} s, P99 {tally.percentile(0.99):.2f} s; {len(tally.problems)} problems\n"
    )
    return 1 if tally.problems or not tally.takeovers_s else 0


if __name__ == "__main__":
    sys.exit(main())
