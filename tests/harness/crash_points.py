"""A canvas that reports the points that its runs reach, and kills its process at one of them.

Models, tools and mail servers are replaced, so that a run needs no service and has no effect outside.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
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
from ragflow_lg.dsl_compiler.deployment import Deployment
from ragflow_lg.engine.compiled_canvas import CompiledCanvas
from ragflow_lg.engine.interrupted_calls import CONTINUE, RUN_AGAIN
from ragflow_lg.integrations.email.mail import Delivery, Mailer, MailMessage, MailTarget
from ragflow_lg.runs.pauses import Pause
from ragflow_lg.runs.runner import Runner
from ragflow_lg.services.services import Services
from ragflow_lg.services.sessions import Durability
from tests.harness.crash_agent import ToolUser, WatchedSteps, watch_tool

PointKind = Literal["in", "after", "stored", "checkpoint", "call", "called", "saved"]
"""Where a run can be killed.

In the body of a node: ``in`` before its work, ``after`` after its work. After a transaction of the store: ``stored``
for each result in it, ``checkpoint`` for each checkpoint. For a call to an agent's model or tool: ``call`` before the
call, ``called`` after the call, and ``saved`` after its result was stored.
"""

StoredSession: TypeAlias = tuple[str, str]
"""A store URL and a session name."""

POINT_KINDS: tuple[PointKind, ...] = get_args(PointKind)
SAMPLES: Mapping[str, Any] = {"integer": 3, "number": 1.5, "boolean": True, "object": {"a": 1}}
_PASSIVE = ("region", "region_item")
"""Component kinds whose ``run`` only reads, and is repeated whenever a run continues inside the region."""


class Point(Struct, frozen=True):
    """The point at which a run is killed: the ``number``-th point of its kind, starting at 1."""

    kind: PointKind
    number: int

    def __str__(self) -> str:
        return f"{self.kind} {self.number}"


class PointLog:
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


class WatchedCanvas(Struct, frozen=True):
    """The canvas that is disturbed, the log to which its components report, and when its steps are stored."""

    compiled: CompiledCanvas
    log: PointLog
    durability: Durability


class _NoPost:
    """A mail server that accepts every message and delivers none."""

    async def send(self, target: MailTarget, message: MailMessage) -> Delivery:
        return Delivery({})


class _SameIds:
    """Random run ids, and the same seed in every run."""

    def run_id(self) -> Any:
        return os.urandom(16).hex()

    def seed(self) -> int:
        return 7


def compile_watched(document: bytes, deployment: Deployment | None, durability: Durability) -> WatchedCanvas:
    """Compile a canvas, and import the modules that every forked process would otherwise import itself."""
    for name in ("sql.sql_store", "sql.sqlite_file", "sql.postgresql_database", "redis.redis_store"):
        with suppress(ImportError):
            import_module(f"ragflow_lg.checkpoints.{name}")
    log = PointLog()
    compiled = compile_canvas(document, _watch_components(load_catalog(), log), deployment)
    return WatchedCanvas(compiled, log, durability)


async def play_watched(
    watched: WatchedCanvas, where: StoredSession, query: str, intent: str, decision: str
) -> dict[str, Any]:
    """Start, continue or resume the session, as ``intent`` says, and return its state; "again" finds out which.

    ``decision`` answers questions about interrupted effects.
    """
    canvas, log, http = watched.compiled, watched.log, GuardedHttpClient()
    post = {Mailer: _NoPost()}
    services = Services(_DemoModels(log), http, InlineFiles(), SystemClock(), _SameIds(), integrations=post)
    url, session = where
    async with open_store(url, durability=watched.durability) as store:
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
            run = runner.resume(session, _answer_all(pauses, log, decision))
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


def _answer_all(pauses: Sequence[Pause], log: PointLog, decision: str) -> dict[str, Any]:
    """Answer forms with samples, and questions about interrupted effects with the decision."""
    fields = [field for pause in pauses for field in form_fields(pause.inputs)]
    answers = _answers(fields)
    for field in fields:
        if tuple(field.options) == (RUN_AGAIN, CONTINUE):
            log.reach("asked")
            answers[field.name] = {"value": decision}
    return answers


def _answers(fields: Any) -> dict[str, Any]:
    return {
        field.name: {"value": field.options[0] if field.options else SAMPLES.get(field.type.lower(), "text")}
        for field in fields
        if not field.is_optional
    }


class _DemoModels:
    def __init__(self, log: PointLog) -> None:
        self._log = log

    def model(self, llm_id: str) -> Any:
        return ToolUser(self._log.reach)


def _watch_components(catalog: Registry, log: PointLog) -> Registry:
    """Make every component report the start and end of its work, as a node and as a tool."""
    for spec in list(catalog):
        if spec.kind not in _PASSIVE:
            watched = replace(spec, run=_watch_run(spec, log))
            catalog.add(watch_tool(watched, log.reach), replace=True)
    return catalog


def _watch_run(spec: AnySpec, log: PointLog) -> Any:
    async def run(ctx: Any, params: Any) -> Any:
        log.reach("in", ctx.node.id)
        if spec.must_run_once(ctx, params):
            log.reach("effect", ctx.node.id)
        result = await spec.run(ctx, params)
        log.reach("after", ctx.node.id)
        return result

    return run


def _watch_store(store: Store, log: PointLog) -> None:
    """Make the store report what it has stored."""
    saver: Any = store.saver
    put, put_writes, steps = saver.aput, saver.aput_writes, saver.steps

    async def aput(*arguments: Any) -> Any:
        config = await put(*arguments)
        log.reach("checkpoint", "")
        return config

    async def aput_writes(config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        await put_writes(config, writes, task_id, task_path)
        if any(channel in ("outputs", "turn") for channel, _ in writes):
            log.reach("stored", _node_of(task_path))

    def watched_steps(config: Any) -> WatchedSteps:
        return WatchedSteps(steps(config), log.reach)

    saver.aput, saver.aput_writes, saver.steps = aput, aput_writes, watched_steps


def _node_of(task_path: str) -> str:
    from ragflow_lg.dsl_compiler.names import node_id

    return node_id(task_path.rpartition(", ")[2].strip())
