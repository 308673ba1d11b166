"""Plays attacks against new servers, and measures what the neighbour notices."""

from __future__ import annotations

import asyncio
import json
import signal
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tests.harness.loaded_python import python_command
from tests.harness.noisy.attack import Attack
from tests.harness.noisy.memory import family_mb, rss_mb
from tests.harness.noisy.neighbour import Measured, Neighbour, probe
from tests.harness.noisy.stage import ROOT, SERVER, Services, Stage

P99_RATIO = 3.0
MIN_TURNS = 200
"""How many turns the neighbour takes. Of fewer than about a hundred, the P99 is the slowest one."""
HEALTH_MS = 200.0
RSS_RATIO = 1.2
FIRST_ALONE_S, ALONE_S = 6.0, 1.5
"""How long the neighbour is measured alone before the first attack, and before each other one."""
ALONE_KEPT = 8
"""The times alone before so many attacks count together, because a P99 needs hundreds of turns."""
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
    alone_turns: int = 0
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
            slowest = f", the slowest of {self.turns}" if self.turns <= 100 else ""
            found.append(f"P99 {self.p99 / self.alone_p99:.1f} × alone{slowest}")
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


class Campaign:
    """Plays attacks one after another, each on new servers, until the neighbour has taken enough turns.

    While the memory of one attack's servers comes back, the servers of the next attack start. The neighbour's times
    alone are measured before each attack, for a short time; those before the last attacks count together.
    """

    def __init__(
        self,
        services: Services,
        seconds: float,
        replicas: int = 1,
        command: Sequence[str] = SERVER,
        loss: Loss = "killed",
    ) -> None:
        """Initialize. ``seconds`` is how long each attack lasts, or longer until the neighbour has taken `MIN_TURNS`.

        With two replicas, the neighbour uses the second one. The first is lost in the middle of the attack, so that the
        second has to take over the attacker's runs.
        """
        self._services = services
        self._seconds = seconds
        self._replicas = replicas
        self._command = command
        self._loss: Loss = loss
        self._alone: deque[Measured] = deque(maxlen=ALONE_KEPT)

    async def play(self, attacks: Sequence[Attack]) -> AsyncGenerator[Result]:
        """Yield the result of each attack as soon as it is known."""
        stack, scene = await self._open(attacks[0])
        try:
            for following in (*attacks[1:], None):
                result = await self._play_on(scene)
                opening = asyncio.create_task(self._open(following)) if following is not None else None
                try:
                    await scene.settle(result, SETTLE_S)
                finally:
                    await stack.aclose()
                    if opening is not None:
                        stack, scene = await opening
                yield result
        finally:
            await stack.aclose()

    async def _open(self, attack: Attack) -> tuple[AsyncExitStack, Scene]:
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ragflow-lg-noisy-")))
            stage = await stack.enter_async_context(self._services.stage(folder, self._replicas, self._command))
            scene = await stack.enter_async_context(open_scene(stage, attack, self._seconds, self._loss))
            return stack.pop_all(), scene

    async def _play_on(self, scene: Scene) -> Result:
        limit_s = FIRST_ALONE_S if not self._alone else ALONE_S
        # The first attack is compared with these turns alone, so there must be as many as beside it.
        min_turns = 0 if self._alone else MIN_TURNS
        self._alone.append(await scene.neighbour.live(min(limit_s, self._seconds), min_turns))
        alone = Measured([second for each in self._alone for second in each.seconds], self._alone[-1].errors)
        return await scene.play(alone, MIN_TURNS)


@dataclass
class Scene:
    """Servers with a neighbour and an attacker who has not begun."""

    stage: Stage
    attack: Attack
    neighbour: Neighbour
    attacker: Process
    seconds: float
    loss: Loss

    async def play(self, alone: Measured, min_turns: int = 0) -> Result:
        """Play the attack; return what the neighbour noticed in ``min_turns``, compared with its times alone."""
        result = Result(self.attack.name, self.attack.summary)
        result.alone_turns = len(alone.seconds)
        result.alone_p50, result.alone_p99 = alone.percentile(0.5), alone.percentile(0.99)
        served = self.stage.replicas[-1]
        result.rss_before = rss_mb(served.process.pid)
        await _attack(self, result, min_turns)
        result.errors[:0] = [f"alone: {error}" for error in alone.errors]
        return result

    async def settle(self, result: Result, limit_s: float) -> None:
        """Wait until the memory has come back, or the time is over, and complete the result."""
        process = self.stage.replicas[-1].process
        result.rss_after = await _settle(process.pid, result.rss_before, limit_s)
        result.lives = process.returncode is None
        result.log = self.stage.log.read_text("utf-8", "replace")[-2000:]


@asynccontextmanager
async def open_scene(stage: Stage, attack: Attack, seconds: float, loss: Loss = "killed") -> AsyncGenerator[Scene]:
    """Start the attacker's process, and let the neighbour use the servers for the first time."""
    neighbour = Neighbour(stage.replicas[-1].url, stage.neighbour_key)
    command = python_command("-m", "tests.harness.noisy.attacker", attack.name)
    attacker = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, cwd=ROOT)
    try:
        async with neighbour.client:
            await neighbour.settle()
            yield Scene(stage, attack, neighbour, attacker, seconds, loss)
    finally:
        if attacker.returncode is None:
            attacker.kill()
            await attacker.wait()


async def play_on(
    stage: Stage, attack: Attack, seconds: float, settle_s: float = SETTLE_S, loss: Loss = "killed"
) -> Result:
    """Play an attack on servers that run."""
    async with open_scene(stage, attack, seconds, loss) as scene:
        result = await scene.play(await scene.neighbour.live(max(1.0, min(FIRST_ALONE_S, seconds / 3))))
        await scene.settle(result, settle_s)
        return result


async def _attack(scene: Scene, result: Result, min_turns: int) -> None:
    served = scene.stage.replicas[-1]
    health, peaks = Measured(), list[float]()
    await _begin(scene)
    beside = [
        asyncio.create_task(probe(served.url, health)),
        asyncio.create_task(_watch(served.process.pid, peaks)),
    ]
    if len(scene.stage.replicas) > 1:
        beside.append(asyncio.create_task(_lose_first(scene.stage, scene.seconds / 2, scene.loss)))
    try:
        measured = await scene.neighbour.live(scene.seconds, min_turns)
        result.answers = await _end(scene.attacker)
    finally:
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
    result.turns, result.errors = len(measured.seconds), [*measured.errors, *health.errors]
    result.p50, result.p99 = measured.percentile(0.5), measured.percentile(0.99)
    result.health_p99, result.health_max = health.percentile(0.99), health.percentile(1)
    result.rss_peak = max(peaks, default=0.0)


async def _begin(scene: Scene) -> None:
    """Send the attacker its target, and wait until it begins."""
    process = scene.attacker
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(scene.stage.target.model_dump_json().encode() + b"\n")
    await process.stdin.drain()
    await process.stdout.readline()


async def _end(process: Process) -> dict[str, int]:
    """End an attack; return what the attacker has counted, or nothing if it does not end."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
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
