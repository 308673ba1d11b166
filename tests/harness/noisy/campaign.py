"""Plays an attack, and measures what the neighbour notices."""

import asyncio
import json
import os
import sys
import time
from asyncio.subprocess import PIPE
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct, field

from tests.harness.noisy.attacks import ATTACKS, Target
from tests.harness.noisy.neighbour import Measured, Neighbour, probe
from tests.harness.noisy.stage import ROOT, Stage

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
    errors: list[str] = field(default_factory=list[str])
    health_max: float = 0.0
    rss_before: float = 0.0
    rss_after: float = 0.0
    lives: bool = True
    answers: dict[str, int] = field(default_factory=dict[str, int])

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


async def play(stage: Stage, name: str, seconds: float, settle_s: float = SETTLE_S) -> Result:
    """Play an attack on a server that runs."""
    result, neighbour, health = Result(name), Neighbour(stage.url, stage.neighbour_key), Measured()
    async with neighbour.client:
        await neighbour.settle()
        alone = await neighbour.live(seconds / 3)
        result.alone_p99, result.rss_before = alone.percentile(0.99), _rss_mb(stage.process.pid)
        command = (sys.executable, "-m", "tests.harness.noisy.attacks", name)
        attacker = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, cwd=ROOT)
        assert attacker.stdin is not None
        assert attacker.stdout is not None
        probing = asyncio.create_task(probe(stage.url, health))
        try:
            attacker.stdin.write(msgspec.json.encode(Target(stage.url, stage.attacker_key)) + b"\n")
            measured = await neighbour.live(seconds)
            attacker.stdin.close()
            with suppress(TimeoutError, ValueError):
                result.answers = json.loads(await asyncio.wait_for(attacker.stdout.readline(), GRACE_S))
        finally:
            probing.cancel()
            if attacker.returncode is None:
                attacker.kill()
            await attacker.wait()
    result.p99, result.turns, result.health_max = measured.percentile(0.99), len(measured.seconds), health.percentile(1)
    result.errors = [*alone.errors, *measured.errors, *health.errors]
    until = time.monotonic() + settle_s
    while (after := _rss_mb(stage.process.pid)) > RSS_RATIO * result.rss_before and time.monotonic() < until:
        await asyncio.sleep(0.05)
    result.rss_after, result.lives = after, stage.process.returncode is None
    return result


def _rss_mb(pid: int) -> float:
    """Return the resident memory of a process, or 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return 0.0


async def play_all(stage: Stage, names: list[str], seconds: float) -> int:
    """Play attacks one after another, and print a row for each; return how many missed a goal."""
    missed = 0
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
