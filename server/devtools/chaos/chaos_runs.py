"""Chaos runs: kill a run at every point, continue it, and compare the result with that of an undisturbed run.

Each run is a forked process that kills itself with SIGKILL at its *point*: in the body of a node, before or after its
work, or right after a write to the store. A second process continues the run. The final state must be the same, and
nodes whose results were stored must not run again.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.system_services import InlineFiles, SystemClock
from ragflow_lg.catalog import load_catalog
from ragflow_lg.checkpoints import Store, open_store
from ragflow_lg.component.registry import Registry
from ragflow_lg.component.spec import AnySpec
from ragflow_lg.dsl.forms import form_fields
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.engine.compiled_canvas import CompiledCanvas
from ragflow_lg.runs.runner import Runner
from ragflow_lg.server.devtools.chaos.chaos_agent import ToolUser, WatchedSteps, watch_tool
from ragflow_lg.services.services import Services

PointKind = Literal["in", "after", "stored", "checkpoint", "call", "called", "saved"]
"""Where a run can be killed.

In the body of a node: ``in`` before its work, ``after`` after its work. After a write to the store: ``stored`` for a
result, ``checkpoint`` for a checkpoint. For a call to an agent's model or tool: ``call`` before the call, ``called``
after the call, and ``saved`` after its result was stored.
"""

StoredSession: TypeAlias = tuple[str, str]
"""A store URL and a session name."""

POINT_KINDS: tuple[PointKind, ...] = get_args(PointKind)
FINISHED: Mapping[PointKind, PointKind] = {"in": "stored", "call": "saved"}
"""The start and end of a piece of work, which must not start again after its end."""
SAMPLES: Mapping[str, Any] = {"integer": 3, "number": 1.5, "boolean": True, "object": {"a": 1}}
LIMIT_S = 60
MAX_TURNS = 40
_PASSIVE = ("region", "region_item")
"""Component kinds whose ``run`` only reads, and is repeated whenever a run continues inside the region."""


class Point(Struct, frozen=True):
    """The point at which a run is killed: the ``number``-th point of its kind, starting at 1."""

    kind: PointKind
    number: int

    def __str__(self) -> str:
        return f"{self.kind} {self.number}"


ChoosePoints: TypeAlias = Callable[[list[Point]], list[Point]]
"""Returns those of a canvas's points at which runs are killed."""


class Result(Struct, frozen=True):
    """The problems of a run that was killed at one point; none if it recovered."""

    point: Point
    problems: tuple[str, ...]


class _Log:
    """Records the points in a file that outlives the process, and kills the process at the chosen one.

    The components of the compiled canvas report to one log. Each forked process has its own copy of it.
    """

    def __init__(self) -> None:
        self._file = -1
        self._point: Point | None = None
        self._count: Counter[str] = Counter()

    def open(self, path: Path, point: Point | None) -> None:
        """Begin the log of this process."""
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._point = point

    def reach(self, kind: str, node: str = "") -> None:
        """Record a point and, if it is the chosen one, kill this process."""
        os.write(self._file, (json.dumps([kind, node]) + "\n").encode())
        self._count[kind] += 1
        if self._point is not None and (self._point.kind, self._point.number) == (kind, self._count[kind]):
            os.kill(os.getpid(), signal.SIGKILL)


class _Canvas(Struct, frozen=True):
    """The canvas that is disturbed, and the log to which its components report."""

    compiled: CompiledCanvas
    log: _Log


class _SameIds:
    """Random run ids, and the same seed in every run."""

    def run_id(self) -> Any:
        return os.urandom(16).hex()

    def seed(self) -> int:
        return 7


def disturb(
    document: bytes,
    fresh: Callable[[], StoredSession],
    folder: Path,
    query: str = "hello",
    choose: ChoosePoints = list,
) -> Iterator[Result | int]:
    """Run a canvas undisturbed, then once for each point. Yield the number of points, then the result for each point.

    ``fresh`` returns the URL of a store and the name of a session that does not exist in it. ``choose`` selects from
    all points.

    Raises:
        RuntimeError: If the undisturbed run does not end.
    """
    canvas = _compile(document)
    calm_log = folder / "calm"
    expected = _run_to_end(canvas, fresh(), calm_log, query, None)
    calm = _entries(calm_log)
    counts = Counter(kind for kind, _ in calm)
    points = choose([Point(kind, n) for kind in POINT_KINDS for n in range(1, counts[kind] + 1)])
    yield len(points)
    for index, point in enumerate(points):
        log, where = folder / f"log-{index}", fresh()
        state = _run_to_end(canvas, where, log, query, point)
        yield Result(point, tuple(_problems(expected, state, calm, _entries(log))))


def disturb_all(
    document: bytes,
    url: str = "",
    query: str = "hello",
    report: Callable[[int, int], None] | None = None,
    choose: ChoosePoints = list,
) -> tuple[int, list[str]]:
    """Kill a canvas at every point that ``choose`` selects; return the number of kills and the problems.

    Without ``url`` every run has its own SQLite file. ``report`` is called with the number of kills so far and the
    total number.

    Raises:
        RuntimeError: If the undisturbed run does not end.
    """
    with tempfile.TemporaryDirectory(prefix="ragflow-lg-chaos-") as folder:
        names = (f"{os.getpid()}-{os.urandom(8).hex()}" for _ in iter(int, 1))

        def fresh() -> StoredSession:
            name = next(names)
            return url or f"sqlite:///{folder}/{name}.db", name

        kills, done, problems = 0, 0, list[str]()
        for result in disturb(document, fresh, Path(folder), query, choose):
            if isinstance(result, int):
                kills = result
            else:
                done += 1
                problems += [f"killed {result.point}: {problem}" for problem in result.problems]
            if report is not None:
                report(done, kills)
    return kills, problems


def _compile(document: bytes) -> _Canvas:
    """Compile the canvas and import the modules that every forked process would otherwise import itself."""
    for name in ("ragflow_lg.checkpoints.sqlite.sqlite_store", "langgraph.checkpoint.redis"):
        with suppress(ImportError):
            import_module(name)
    log = _Log()
    return _Canvas(compile_canvas(document, _watch_components(load_catalog(), log)), log)


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


def _entries(log: Path) -> list[tuple[str, str]]:
    return [tuple(json.loads(line)) for line in log.read_text().splitlines()]


def _run_to_end(canvas: _Canvas, where: StoredSession, log: Path, query: str, point: Point | None) -> Any:
    """Run all turns, each in its own process, and return the final state. If a process is killed, another continues."""
    answer, intent = log.with_suffix(".json"), "start"
    for _ in range(MAX_TURNS):
        pid = os.fork()
        if pid == 0:
            _child(canvas, where, log, query, point, intent, answer)
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
    canvas: _Canvas, where: StoredSession, log: Path, query: str, point: Point | None, intent: str, answer: Path
) -> None:
    gc.freeze()  # a collection would visit, and so copy, all objects of the parent
    try:
        canvas.log.open(log, point)
        outcome = asyncio.run(asyncio.wait_for(_play(canvas, where, query, intent), LIMIT_S))
        answer.write_text(json.dumps(outcome, sort_keys=True))
        os._exit(0)
    except BaseException:  # noqa: BLE001 - a forked process must not return into its parent's code
        answer.write_text(traceback.format_exc())
        os._exit(1)


async def _play(watched: _Canvas, where: StoredSession, query: str, intent: str) -> dict[str, Any]:
    canvas, log, http = watched.compiled, watched.log, GuardedHttpClient()
    services = Services(_DemoModels(log), http, InlineFiles(), SystemClock(), _SameIds())
    url, session = where
    async with open_store(url, SystemClock()) as store:
        _watch_store(store, log)
        runner = Runner(canvas, services, store=store)
        pauses = await runner.pauses(session)
        if intent == "again":
            state = await runner.state(session)
            intent = "resume" if pauses else "continue" if state.get("turn", {}).get("status") == "running" else "start"
            if state.get("turn", {}).get("status") in ("succeeded", "failed"):
                return _outcome(state, state["turn"]["status"])
        if intent == "start":
            run = runner.start(session, {"query": query, "inputs": _answers(canvas.plan.form)})
        elif intent == "continue":
            run = runner.continue_(session)
        else:
            fields = [field for pause in pauses for field in form_fields(pause.inputs)]
            run = runner.resume(session, _answers(fields))
        async for _ in run:
            pass
        await http.aclose()
        return _outcome(await runner.state(session), run.status)


def _outcome(state: Mapping[str, Any], status: str) -> dict[str, Any]:
    globals_ = {key: value for key, value in state.get("globals", {}).items() if key != "sys.date"}
    record = {key: value for key, value in state.get("turn", {}).items() if key in ("status", "visits", "inputs")}
    return {
        "status": status,
        "outputs": state.get("outputs"),
        "globals": globals_,
        "history": state.get("history"),
        "turn": record,
    }


def _answers(fields: Any) -> dict[str, Any]:
    return {
        field.name: {"value": field.options[0] if field.options else SAMPLES.get(field.type.lower(), "text")}
        for field in fields
        if not field.is_optional
    }


class _DemoModels:
    def __init__(self, log: _Log) -> None:
        self._log = log

    def model(self, llm_id: str) -> Any:
        return ToolUser(self._log.reach)


def _watch_components(catalog: Registry, log: _Log) -> Registry:
    """Make every component report the start and end of its work, as a node and as a tool."""
    for spec in list(catalog):
        if spec.kind not in _PASSIVE:
            watched = replace(spec, run=_watch_run(spec, log))
            catalog.add(watch_tool(watched, log.reach), replace=True)
    return catalog


def _watch_run(spec: AnySpec, log: _Log) -> Any:
    async def run(ctx: Any, params: Any) -> Any:
        log.reach("in", ctx.node.id)
        result = await spec.run(ctx, params)
        log.reach("after", ctx.node.id)
        return result

    return run


def _watch_store(store: Store, log: _Log) -> None:
    """Make the store report its writes."""
    saver: Any = store.saver
    put, put_writes = saver.aput, saver.aput_writes

    async def aput(*arguments: Any) -> Any:
        result = await put(*arguments)
        log.reach("checkpoint")
        return result

    async def aput_writes(config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        await put_writes(config, writes, task_id, task_path)
        if any(channel in ("outputs", "turn") for channel, _ in writes):
            log.reach("stored", _node_of(task_path))

    steps = saver.steps

    def watched_steps(config: Any) -> WatchedSteps:
        return WatchedSteps(steps(config), log.reach)

    saver.aput, saver.aput_writes, saver.steps = aput, aput_writes, watched_steps


def _node_of(task_path: str) -> str:
    from ragflow_lg.dsl_compiler.names import node_id

    return node_id(task_path.rpartition(", ")[2].strip())
