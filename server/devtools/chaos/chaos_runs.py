"""The crash kit: kill a run at every place, let it go on, and compare with one that was left in peace.

Each run is a forked process. It kills itself with SIGKILL at its *point*: within the body of a node, before or
after its work, or right after something was stored. A second process goes on. What counts is that the final state is
the same and that no node ran again whose result had been stored.
"""

from __future__ import annotations

import asyncio
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
from ragflow_lg.adapters.local_files import InlineFiles
from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.catalog import load_catalog
from ragflow_lg.checkpoints import Store, open_store
from ragflow_lg.component.registry import Registry
from ragflow_lg.component.spec import AnySpec
from ragflow_lg.dsl.forms import form_fields
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from ragflow_lg.server.devtools.chaos.chaos_agent import ToolUser, WatchedSteps, tool_watched
from ragflow_lg.services.services import Services

__all__ = ["Point", "Result", "Where", "disturb", "disturb_all"]

Place = Literal["in", "behind", "stored", "checkpoint", "call", "called", "kept"]
"""``in`` a body before its work, ``behind`` it before it returns, after a result or a checkpoint was ``stored``; of an
agent's ``call`` of its model or a tool before the work, behind it (``called``), and after its result was ``kept``."""

Where: TypeAlias = tuple[str, str]
"""URL of a store, and the name of a session."""

PLACES: tuple[Place, ...] = get_args(Place)
FINISHED: Mapping[Place, Place] = {"in": "stored", "call": "kept"}
"""Where something begins, and where it is finished: from there on it must not begin again."""
SAMPLES: Mapping[str, Any] = {"integer": 3, "number": 1.5, "boolean": True, "object": {"a": 1}}
LIMIT_S = 60
MAX_TURNS = 40
_PASSIVE = ("region", "region_item")
"""Kinds whose ``run`` only reads and is called again whenever a run goes on inside."""


class Point(Struct, frozen=True):
    """Where a run is killed: at the ``number``-th time, from 1, that it comes to such a place."""

    place: Place
    number: int

    def __str__(self) -> str:
        return f"{self.place} {self.number}"


class Result(Struct, frozen=True):
    """What came of one point: what is wrong, nothing if all is well."""

    point: Point
    problems: tuple[str, ...]


class _Log:
    """What happened, in a file that outlives the process; and the killing."""

    def __init__(self, path: Path, point: Point | None) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._point = point
        self._count: Counter[str] = Counter()

    def reach(self, place: str, node: str = "") -> None:
        os.write(self._file, (json.dumps([place, node]) + "\n").encode())
        self._count[place] += 1
        if self._point is not None and (self._point.place, self._point.number) == (place, self._count[place]):
            os.kill(os.getpid(), signal.SIGKILL)


class _SameIds:
    """Ids that do not differ between two runs of a canvas."""

    def run_id(self) -> Any:
        return os.urandom(16).hex()

    def seed(self) -> int:
        return 7


def disturb(document: bytes, fresh: Callable[[], Where], folder: Path, query: str = "hello") -> Iterator[Result | int]:
    """Play a canvas in peace, then once for each place where it can be killed; give first how many there are.

    ``fresh`` gives a store, by its URL, and the name of a session that it does not have.

    Raises:
        RuntimeError: if the canvas does not come to an end when it is left in peace.
    """
    _import_all(document)
    calm_log = folder / "calm"
    state = _played(document, fresh(), calm_log, query, None)
    calm = _entries(calm_log)
    places = Counter(place for place, _ in calm)
    points = [Point(place, n) for place in PLACES for n in range(1, places[place] + 1)]
    yield len(points)
    for index, point in enumerate(points):
        log, where = folder / f"log-{index}", fresh()
        found = _played(document, where, log, query, point)
        yield Result(point, tuple(_problems(state, found, calm, _entries(log))))


def disturb_all(
    document: bytes, url: str = "", query: str = "hello", tell: Callable[[int, int], None] | None = None
) -> tuple[int, list[str]]:
    """Disturb a canvas everywhere; give how often it was killed, and what went wrong.

    Without ``url`` every run has an SQLite file of its own. ``tell`` is told how many of how many kills are done.

    Raises:
        RuntimeError: if the canvas does not come to an end when it is left in peace.
    """
    with tempfile.TemporaryDirectory(prefix="ragflow-lg-chaos-") as folder:
        names = (f"{os.getpid()}-{os.urandom(8).hex()}" for _ in iter(int, 1))

        def fresh() -> Where:
            name = next(names)
            return url or f"sqlite:///{folder}/{name}.db", name

        kills, done, problems = 0, 0, list[str]()
        for result in disturb(document, fresh, Path(folder), query):
            if isinstance(result, int):
                kills = result
            else:
                done += 1
                problems += [f"killed {result.point}: {problem}" for problem in result.problems]
            if tell is not None:
                tell(done, kills)
    return kills, problems


def _import_all(document: bytes) -> None:
    """Import here what every forked process would have to."""
    for name in (
        "ragflow_lg.checkpoints.sqlite.sqlite_store",
        "langgraph.checkpoint.redis",
    ):
        with suppress(ImportError):
            import_module(name)
    compile_canvas(document, load_catalog())


def _problems(state: Any, found: Any, calm: list[tuple[str, str]], entries: list[tuple[str, str]]) -> Iterator[str]:
    if found != state:
        yield f"the final state is {found!r:.300}, not {state!r:.300}"
    killed = next((i for i, (place, _) in enumerate(entries) if place == "killed"), len(entries))
    for begin, end in FINISHED.items():
        begins = Counter(name for place, name in calm if place == begin)
        running = Counter(name for place, name in entries[:killed] if place == begin)
        running.subtract(name for place, name in entries[:killed] if place == end)
        for name, count in Counter(name for place, name in entries if place == begin).items():
            if count - begins[name] > max(0, running[name]):
                yield f"{name} ran {count} times, in peace {begins[name]}, although its result had been stored"


def _entries(log: Path) -> list[tuple[str, str]]:
    return [tuple(json.loads(line)) for line in log.read_text().splitlines()]


def _played(document: bytes, where: Where, log: Path, query: str, point: Point | None) -> Any:
    """Play all turns, each process by itself; the first that dies is followed by one that goes on."""
    answer, intent = log.with_suffix(".json"), "start"
    for _ in range(MAX_TURNS):
        pid = os.fork()
        if pid == 0:
            _child(document, where, log, query, point, intent, answer)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            with log.open("a") as file:
                file.write('["killed", ""]\n')
            point, intent = None, "again"
            continue
        if os.waitstatus_to_exitcode(status) != 0:
            raise RuntimeError(f"the canvas cannot be played: {answer.read_text()}")
        said = json.loads(answer.read_text())
        if said["status"] != "waiting":
            return said
        point = None if point is None else _left(point, log)
        intent = "resume"
    raise RuntimeError(f"the canvas still waits after {MAX_TURNS} answers")


def _left(point: Point, log: Path) -> Point:
    """The same point, counted from the next process on."""
    reached = sum(place == point.place for place, _ in _entries(log))
    return Point(point.place, point.number - reached)


def _child(
    document: bytes, where: Where, log: Path, query: str, point: Point | None, intent: str, answer: Path
) -> None:
    try:
        said = asyncio.run(asyncio.wait_for(_play(document, where, _Log(log, point), query, intent), LIMIT_S))
        answer.write_text(json.dumps(said, sort_keys=True))
        os._exit(0)
    except BaseException:  # noqa: BLE001 - a forked process must not return into its parent's code
        answer.write_text(traceback.format_exc())
        os._exit(1)


async def _play(document: bytes, where: Where, log: _Log, query: str, intent: str) -> dict[str, Any]:
    canvas = compile_canvas(document, _watched(load_catalog(), log))
    http = GuardedHttpClient()
    services = Services(_Demo(log), http, InlineFiles(), SystemClock(), _SameIds())
    url, session = where
    async with open_store(url, SystemClock()) as store:
        _watch(store, log)
        runner = Runner(canvas, services, store=store)
        pauses = await runner.pauses(session)
        if intent == "again":
            state = await runner.state(session)
            intent = "resume" if pauses else "continue" if state.get("turn", {}).get("status") == "running" else "start"
            if state.get("turn", {}).get("status") in ("succeeded", "failed"):
                return _said(state, state["turn"]["status"])
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
        return _said(await runner.state(session), run.status)


def _said(state: Mapping[str, Any], status: str) -> dict[str, Any]:
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


class _Demo:
    def __init__(self, log: _Log) -> None:
        self._log = log

    def model(self, llm_id: str) -> Any:
        return ToolUser(self._log.reach)


def _watched(catalog: Registry, log: _Log) -> Registry:
    """Let every component tell when it begins and when it is done, as a node and as a tool."""
    for spec in list(catalog):
        if spec.kind not in _PASSIVE:
            watched = replace(spec, run=_watching(spec, log))
            catalog.add(tool_watched(watched, log.reach), replace=True)
    return catalog


def _watching(spec: AnySpec, log: _Log) -> Any:
    async def run(ctx: Any, params: Any) -> Any:
        log.reach("in", ctx.node.id)
        result = await spec.run(ctx, params)
        log.reach("behind", ctx.node.id)
        return result

    return run


def _watch(store: Store, log: _Log) -> None:
    """Tell when something has been stored."""
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
