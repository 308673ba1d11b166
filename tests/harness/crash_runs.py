"""Crash runs: kill a run at every point, continue it, and compare the result with that of an undisturbed run.

Each run is a forked process that kills itself with SIGKILL at its *point*: in the body of a node, before or after its
work, or right after a write to the store. A second process continues the run. The final state must be the same, and
nodes whose results were stored must not run again. If the continued run asks about an effect that must not happen
twice, it gets the answer yes, and a further run gets the answer no.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from ragflow_lg.dsl_compiler.deployment import Deployment
from ragflow_lg.engine.interrupted_calls import CONTINUE, RUN_AGAIN
from ragflow_lg.services.sessions import Durability
from tests.harness.crash_points import (
    POINT_KINDS,
    Point,
    PointKind,
    StoredSession,
    WatchedCanvas,
    compile_watched,
    play_watched,
)

FINISHED: Mapping[PointKind, PointKind] = {"in": "stored", "call": "saved"}
"""The start and end of a piece of work, which must not start again after its end."""
LIMIT_S = 60
MAX_TURNS = 40

ChoosePoints: TypeAlias = Callable[[list[Point]], list[Point]]
"""Returns those of a canvas's points at which runs are killed."""


class Result(Struct, frozen=True):
    """The problems of a run that was killed at one point; none if it recovered."""

    point: Point
    problems: tuple[str, ...]


def disturb(
    document: bytes,
    fresh: Callable[[], StoredSession],
    folder: Path,
    query: str = "hello",
    choose: ChoosePoints = list,
    deployment: Deployment | None = None,
    durability: Durability = "effects",
) -> Iterator[Result | int]:
    """Run a canvas undisturbed, then once for each point. Yield the number of points, then the result for each point.

    ``fresh`` returns the URL of a store and the name of a session that does not exist in it. ``choose`` selects from
    all points. ``deployment`` has the canvases that this one runs.

    Raises:
        RuntimeError: If the undisturbed run does not end.
    """
    canvas = compile_watched(document, deployment, durability)
    calm_log = folder / "calm"
    expected = _run_to_end(canvas, fresh(), calm_log, query, None)
    calm = _entries(calm_log)
    counts = Counter(kind for kind, _ in calm)
    points = choose([Point(kind, n) for kind in POINT_KINDS for n in range(1, counts[kind] + 1)])
    yield len(points)
    for index, point in enumerate(points):
        log, where = folder / f"log-{index}", fresh()
        state = _run_to_end(canvas, where, log, query, point)
        problems = [*_problems(expected, state, calm, _entries(log))]
        if any(kind == "asked" for kind, _ in _entries(log)):
            refused = folder / f"refused-{index}"
            _run_to_end(canvas, fresh(), refused, query, point, decision=CONTINUE)
            problems += find_repeated_effects(calm, _entries(refused), is_allowed=False)
        yield Result(point, tuple(problems))


def disturb_all(
    document: bytes,
    url: str = "",
    query: str = "hello",
    choose: ChoosePoints = list,
    deployment: Deployment | None = None,
    durability: Durability = "effects",
) -> tuple[int, list[str]]:
    """Kill a canvas at every point that ``choose`` selects; return the number of kills and the problems.

    Without ``url`` every run has its own SQLite file.

    Raises:
        RuntimeError: If the undisturbed run does not end.
    """
    with tempfile.TemporaryDirectory(prefix="crash-") as folder:
        names = (f"{os.getpid()}-{os.urandom(8).hex()}" for _ in iter(int, 1))

        def fresh() -> StoredSession:
            name = next(names)
            return url or f"sqlite:///{folder}/{name}.db", name

        kills, *results = disturb(document, fresh, Path(folder), query, choose, deployment, durability)
        assert isinstance(kills, int)
        found = [result for result in results if isinstance(result, Result)]
    return kills, [f"killed {each.point}: {problem}" for each in found for problem in each.problems]


def _problems(expected: Any, state: Any, calm: list[tuple[str, str]], entries: list[tuple[str, str]]) -> Iterator[str]:
    if state != expected:
        yield f"the final state is {state!r:.300}, not {expected!r:.300}"
    killed = next((i for i, (kind, _) in enumerate(entries) if kind == "killed"), len(entries))
    for begin, end in FINISHED.items():
        begins = Counter(name for kind, name in calm if kind == begin)
        running = Counter(name for kind, name in entries[:killed] if kind == begin)
        running.subtract(name for kind, name in entries[:killed] if kind == end)
        for name, count in Counter(name for kind, name in entries if kind == begin).items():
            if count - begins[name] > max(0, running[name]):
                yield f"{name} ran {count} times instead of {begins[name]}, although its result had been stored"
    yield from find_repeated_effects(calm, entries, is_allowed=True)


def find_repeated_effects(
    calm: list[tuple[str, str]], entries: list[tuple[str, str]], *, is_allowed: bool
) -> Iterator[str]:
    """Report effects that happened again without the user's permission."""
    expected, effects = (sum(kind == "effect" for kind, _ in log) for log in (calm, entries))
    asked = sum(kind == "asked" for kind, _ in entries)
    if effects > expected + (asked if is_allowed else 0):
        yield f"{effects} effects instead of {expected}, after {asked} questions"


def _entries(log: Path) -> list[tuple[str, str]]:
    return [tuple(json.loads(line)) for line in log.read_text().splitlines()]


def _run_to_end(
    canvas: WatchedCanvas, where: StoredSession, log: Path, query: str, point: Point | None, decision: str = RUN_AGAIN
) -> Any:
    """Run all turns, each in its own process, and return the final state. If a process is killed, another continues."""
    answer, intent = log.with_suffix(".json"), "start"
    for _ in range(MAX_TURNS):
        pid = os.fork()
        if pid == 0:
            _child(canvas, where, log, query, point, intent, answer, decision)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            with log.open("a") as file:
                file.write('["killed", ""]\n')
            point, intent = None, "again"
            continue
        if os.waitstatus_to_exitcode(status) != 0:
            raise RuntimeError(f"the canvas cannot be run: {answer.read_text()}")
        outcome = json.loads(answer.read_text())
        if outcome["status"] != "waiting":
            return outcome
        point = None if point is None else _remaining(point, log)
        intent = "resume"
    raise RuntimeError(f"the canvas is still waiting after {MAX_TURNS} answers")


def _remaining(point: Point, log: Path) -> Point:
    """Return the same point, counted from the start of the next process."""
    reached = sum(kind == point.kind for kind, _ in _entries(log))
    return Point(point.kind, point.number - reached)


def _child(
    canvas: WatchedCanvas,
    where: StoredSession,
    log: Path,
    query: str,
    point: Point | None,
    intent: str,
    answer: Path,
    decision: str,
) -> None:
    gc.freeze()  # a collection would visit, and so copy, all objects of the parent
    try:
        canvas.log.open(log, point)
        outcome = asyncio.run(asyncio.wait_for(play_watched(canvas, where, query, intent, decision), LIMIT_S))
        answer.write_text(json.dumps(outcome, sort_keys=True))
        os._exit(0)
    except BaseException:  # noqa: BLE001 - a forked process must not return into its parent's code
        answer.write_text(traceback.format_exc())
        os._exit(1)
