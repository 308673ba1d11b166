"""Plays one attack against new servers, and measures what the neighbour notices."""

import asyncio
import json
import signal
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tests.harness.loaded_python import python_command
from tests.harness.noisy.attack import Attack
from tests.harness.noisy.memory import family_mb, rss_mb
from tests.harness.noisy.neighbour import Measured, Neighbour, probe
from tests.harness.noisy.stage import ROOT, SERVER, Services, Stage

P99_RATIO = 3.0
HEALTH_MS = 200.0
RSS_RATIO = 1.2
SETTLE_S = 15.0
"""How long memory may take to come back."""
GRACE_S = 15.0
"""How long an attacker may take to end."""
_SAMPLE_S = 0.05

Loss: TypeAlias = Literal["killed", "stopped"]
"""What happens to the first of two replicas: it is killed, or it does nothing more but keeps its connections."""


@dataclass
class Result:
    """What one attack did. Times are in milliseconds, memory is in MB."""

    name: str
    summary: str
    alone_p50: float = 0.0
    alone_p99: float = 0.0
    p50: float = 0.0
    p99: float = 0.0
    turns: int = 0
    errors: list[str] = field(default_factory=list[str])
    health_p99: float = 0.0
    health_max: float = 0.0
    rss_before: float = 0.0
    rss_peak: float = 0.0
    """With all worker processes."""
    rss_after: float = 0.0
    lives: bool = True
    answers: dict[str, int] = field(default_factory=dict[str, int])
    log: str = ""
    """The end of the server's log."""

    def problems(self) -> list[str]:
        """Return the goals that were missed."""
        found: list[str] = []
        if not self.lives:
            found.append("the server ended")
        if self.p99 > P99_RATIO * self.alone_p99:
            found.append(f"P99 {self.p99 / self.alone_p99:.1f} × alone")
        if self.errors:
            found.append(f"{len(self.errors)} errors")
        if self.health_max > HEALTH_MS:
            found.append(f"/health {self.health_max:.0f} ms")
        if self.rss_after > RSS_RATIO * self.rss_before:
            found.append(f"RSS × {self.rss_after / self.rss_before:.2f}")
        return found

    def as_json(self) -> dict[str, Any]:
        """Return all values, and the missed goals."""
        return {**asdict(self), "problems": self.problems()}


async def play(
    services: Services,
    attack: Attack,
    seconds: float,
    replicas: int = 1,
    command: Sequence[str] = SERVER,
    loss: Loss = "killed",
) -> Result:
    """Play an attack on new servers for some seconds.

    With two replicas, the neighbour uses the second one. The first is lost in the middle of the attack, so that the
    second has to take over the attacker's runs.
    """
    with tempfile.TemporaryDirectory(prefix="ragflow-lg-noisy-") as name:
        async with services.stage(Path(name), replicas, command) as stage:
            return await play_on(stage, attack, seconds, loss=loss)


async def play_on(
    stage: Stage, attack: Attack, seconds: float, settle_s: float = SETTLE_S, loss: Loss = "killed"
) -> Result:
    """Play an attack on servers that run."""
    result = Result(attack.name, attack.summary)
    served = stage.replicas[-1]
    neighbour = Neighbour(served.url, stage.neighbour_key)
    async with neighbour.client:
        await neighbour.settle()
        alone = await neighbour.live(max(1.0, min(10.0, seconds / 3)))
        result.alone_p50, result.alone_p99 = alone.percentile(0.5), alone.percentile(0.99)
        result.rss_before = rss_mb(served.process.pid)
        await _attack(stage, neighbour, attack, seconds, result, loss)
    result.errors[:0] = [f"alone: {error}" for error in alone.errors]
    result.rss_after = await _settle(served.process.pid, result.rss_before, settle_s)
    result.lives = served.process.returncode is None
    result.log = stage.log.read_text("utf-8", "replace")[-2000:]
    return result


async def _attack(
    stage: Stage, neighbour: Neighbour, attack: Attack, seconds: float, result: Result, loss: Loss
) -> None:
    served = stage.replicas[-1]
    health, peaks = Measured(), list[float]()
    async with _attacker(stage, attack, seconds) as process:
        beside = [
            asyncio.create_task(probe(served.url, health)),
            asyncio.create_task(_watch(served.process.pid, peaks)),
        ]
        if len(stage.replicas) > 1:
            beside.append(asyncio.create_task(_lose_first(stage, seconds / 2, loss)))
        try:
            measured = await neighbour.live(seconds)
            result.answers = await _read_answers(process)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
    result.turns, result.errors = len(measured.seconds), [*measured.errors, *health.errors]
    result.p50, result.p99 = measured.percentile(0.5), measured.percentile(0.99)
    result.health_p99, result.health_max = health.percentile(0.99), health.percentile(1)
    result.rss_peak = max(peaks, default=0.0)


@asynccontextmanager
async def _attacker(stage: Stage, attack: Attack, seconds: float) -> AsyncGenerator[Process]:
    """Start the process that attacks, and wait until it begins."""
    command = python_command("-m", "tests.harness.noisy.attacker", attack.name, str(seconds))
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, cwd=ROOT)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(stage.target.model_dump_json().encode() + b"\n")
    await process.stdin.drain()
    await process.stdout.readline()
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _read_answers(process: Process) -> dict[str, int]:
    """Return what the attacker has counted, or nothing if it does not end."""
    assert process.stdout is not None
    with suppress(TimeoutError, ValueError):
        return json.loads(await asyncio.wait_for(process.stdout.readline(), GRACE_S))
    return {}


async def _lose_first(stage: Stage, delay_s: float, loss: Loss) -> None:
    await asyncio.sleep(delay_s)
    stage.replicas[0].process.send_signal(signal.SIGKILL if loss == "killed" else signal.SIGSTOP)


async def _watch(pid: int, peaks: list[float]) -> None:
    while True:
        peaks.append(family_mb(pid))
        await asyncio.sleep(_SAMPLE_S)


async def _settle(pid: int, before: float, limit_s: float) -> float:
    """Return the memory after the attack: as soon as it has come back, or when the time is over."""
    until = time.monotonic() + limit_s
    while (after := rss_mb(pid)) > RSS_RATIO * before and time.monotonic() < until:
        await asyncio.sleep(_SAMPLE_S)
    return after
