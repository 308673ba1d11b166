"""End a worker or a server at each of its commands to Redis and the database; see that others go on.

``python -m tests.campaigns deaths [--places worker server alone] [--scenes turn …] [--database postgresql]``. In each
scene (`tests.harness.death_scenes`), the process that plays the turn ends at once before its first command that writes,
then after it, before the second one, and so on until it ends no more. Another process goes on. With ``--first N``, the
process dies at its Nth command, and the one that goes on dies at each of its own.

The stream must end with the right answer exactly once, no effect may be repeated after a later one has begun, the runs
and the session must have ended, the queue must be empty, and nothing may be logged over and over.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragflow_lg.integrations.mock_model.rules import Rules
from tests.harness.death_scenes import KINDS, LIMIT_S, RULES, Scene, SceneKind, canvases, settle
from tests.harness.death_stage import Place, Stage, open_stage
from tests.harness.loaded_python import loaded_python

PLACES: tuple[Place, ...] = ("worker", "server", "alone")
MISSES = 2
"""After so many numbers at which a process has not died, a scene has no more commands."""
LATE_S = 0.7
"""How long a process may take to die after the last event of its turn."""

Plan = tuple[int, str]
"""The number of a command, and whether the process ends ``before`` or ``after`` it."""


@dataclass
class Result:
    """What has happened in all scenes."""

    kills: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list[str])


class Deaths:
    """Plays scenes on one stage."""

    def __init__(self, stage: Stage, report: Callable[[str], object]) -> None:
        self._stage = stage
        self._report = report
        self._agents: dict[str, str] = {}
        self._count = 0
        self.result = Result()

    async def open(self) -> None:
        """Create the agents."""
        await self._stage.prepare(0)
        self._stage.effects.canvases = canvases(f"http://127.0.0.1:{self._stage.effects.port}")
        for name, dsl in self._stage.effects.canvases.items():
            made = await self._stage.server.client.post("/agents", json={"title": name, "dsl": dsl})
            self._agents[name] = made.json()["data"]["id"]

    async def enumerate(self, name: str, first: Sequence[Plan] = (), start: int = 1, step: int = 1) -> None:
        """Play a scene again and again, until nobody dies any more."""
        number, misses = start, 0
        while misses < MISSES:
            has_died = False
            for moment in ("before", "after"):
                has_died = await self.play(name, [*first, (number, moment)]) or has_died
            misses = 0 if has_died else misses + 1
            number += step

    async def play(self, name: str, plans: Sequence[Plan]) -> bool:
        """Play a scene in which one process after the other dies. Return whether all have died."""
        stage, kind, began_s = self._stage, KINDS[name], time.monotonic()
        self._count += 1
        await stage.prepare(len(plans))
        stage.new_log_problems()
        scene = Scene(stage, self._agents, f"{name}{self._count}", until=began_s + LIMIT_S)
        deaths: list[str] = []
        try:
            await kind.prepare(scene)
            for mortal, plan in zip(stage.mortals, plans, strict=False):
                mortal.plan(*plan)
            await self._play(scene, kind, len(plans), deaths)
        except TimeoutError as error:
            scene.problems.append(str(error))
        scene.problems += stage.new_log_problems()
        scene.problems += [
            f"repeated: {each}" for each in stage.effects.repeated() if each.startswith(f"{scene.turn}:")
        ]
        at = "; ".join(deaths) or "nobody died"
        took_s = time.monotonic() - began_s
        self.result.seconds += took_s
        self.result.kills += len(deaths)
        result = "ok  " if not scene.problems else "FAIL"
        self._report(f"{result} {stage.place} {name} {plans}: {at}; {took_s:.1f} s\n")
        for problem in scene.problems:
            self._report(f"     {problem}\n")
            self.result.problems.append(f"{stage.place} {name} {plans} ({at}): {problem}")
        if scene.problems:
            self._report(f"     logs: {self._tails()}\n")
        await self._discard(len(plans) - len(deaths))
        return len(deaths) == len(plans)

    async def _play(self, scene: Scene, kind: SceneKind, count: int, deaths: list[str]) -> None:
        """Play a scene, and let the next process work when one has died."""
        playing: asyncio.Future[None] = asyncio.ensure_future(kind.play(scene))
        try:
            late_s = 0.0
            while len(deaths) < count:
                if self._stage.mortals[0].has_died:
                    deaths.append((await self._stage.replace_dead()).death)
                    scene.until = time.monotonic() + LIMIT_S
                elif playing.done():
                    late_s = late_s or time.monotonic() + LATE_S
                    if time.monotonic() > late_s:
                        break
                await asyncio.sleep(0.01)
            await playing
        finally:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
        if len(deaths) < count:
            return
        await settle(scene)
        await kind.check(scene)
        await settle(scene)

    def _tails(self) -> str:
        logs = sorted(self._stage.folder.glob("*/log"), key=lambda path: path.stat().st_mtime)[-3:]
        return " | ".join(f"{log.parent.name}: {log.read_text()[-600:]}" for log in logs)

    async def _discard(self, count: int) -> None:
        """End processes that have a plan and are still there."""
        for _ in range(count):
            if len(self._stage.mortals) < 2:
                await self._stage.prepare(1)
            await self._stage.replace_dead()


async def enumerate_deaths(
    places: Sequence[Place],
    scenes: Sequence[str],
    *,
    database: str = "sqlite",
    first: Sequence[Plan] = (),
    start: int = 1,
    step: int = 1,
    report: Callable[[str], object] = sys.stdout.write,
) -> Result:
    """Play scenes in places; return what has happened."""
    total = Result()
    for place in places:
        rules: Any = Rules.model_validate(RULES)
        async with open_stage(place, rules, database) as stage:
            deaths = Deaths(stage, report)
            await deaths.open()
            for name in scenes:
                await deaths.enumerate(name, first, start, step)
            total.kills += deaths.result.kills
            total.seconds += deaths.result.seconds
            total.problems += deaths.result.problems
    return total


async def play_some(
    place: Place, plays: Sequence[tuple[str, Sequence[Plan]]], report: Callable[[str], object] = sys.stdout.write
) -> Result:
    """Play scenes with given deaths; return what has happened."""
    async with open_stage(place, Rules.model_validate(RULES)) as stage:
        deaths = Deaths(stage, report)
        await deaths.open()
        for name, plans in plays:
            await deaths.play(name, plans)
        return deaths.result


def main() -> int:
    """Print the result of each kill; return 1 if there is a problem."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--places", nargs="+", choices=PLACES, default=PLACES)
    parser.add_argument("--scenes", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--database", default="sqlite")
    parser.add_argument("--first", type=int, help="the command at which the first process dies")
    parser.add_argument("--start", type=int, default=1)
    parser.add_argument("--step", type=int, default=1)
    options = parser.parse_args()
    first: list[Plan] = [(options.first, "after")] if options.first else []

    def report(line: str) -> None:
        sys.stdout.write(line)
        sys.stdout.flush()

    with loaded_python():
        result = asyncio.run(
            enumerate_deaths(
                options.places,
                options.scenes,
                database=options.database,
                first=first,
                start=options.start,
                step=options.step,
                report=report,
            )
        )
    problems = len(result.problems)
    sys.stdout.write(f"{result.kills} kills, {problems} problems, {result.seconds / max(result.kills, 1):.1f} s each\n")
    return 1 if problems or not result.kills else 0


if __name__ == "__main__":
    sys.exit(main())
