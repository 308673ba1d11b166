"""Processes that end at a given command (`tests.harness.mortal_process`), and what they share."""

import re
import tempfile
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from sqlalchemy import text

from ragflow_lg.integrations.mock_model.mock_llm_app import Exchange
from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.streaming.run_queue import QueueState, open_queue
from tests.fakes.http_server import HttpServer, Received, Route
from tests.harness.mortal_process import CODE, VARIABLE
from tests.harness.shared_services import start_shared_services
from tests.server.queue_processes import end, start_worker
from tests.server.replicas import Program, Replica, start_replica

Place = Literal["worker", "server", "alone"]
"""Which process ends: a worker, the server of some workers, or a server that plays its runs itself."""

MORE_SETTINGS = """
run_wait_s = 0
[limits]
takeovers = 10
"""
QUEUE_SETTINGS = """
[queue]
url = "{redis_url}"
silence_s = 0.7
"""
MAX_REPEATED = 5
"""How often a line of the log may come in one case, numbers and ids apart."""


class Effects(HttpServer):
    """The services, and a record of all effects: the number of the step, by turn."""

    def __init__(self) -> None:
        super().__init__([Route("/1", body="one", delay_ms=60), Route("/3", body="three", delay_ms=60)])
        self.steps: dict[str, list[int]] = {}
        self.canvases: dict[str, Any] = {}

    def _route(self, request: Received) -> Route:
        parts = urlsplit(request.path)
        if turn := parse_qs(parts.query).get("turn"):
            self.record(turn[0], int(parts.path[1:]))
        return super()._route(request)

    def record(self, turn: str, step: int) -> None:
        self.steps.setdefault(turn, []).append(step)

    def record_model(self, exchange: Exchange) -> None:
        if not exchange.end and exchange.body is not None:
            step, _, rest = str(exchange.body["messages"][-1]["content"]).partition(" for ")
            self.record(rest.rstrip("."), int(step))

    def repeated(self) -> list[str]:
        """Return the turns in which a step was repeated after a later one had begun."""
        return [
            f"{turn}: {steps}"
            for turn, steps in self.steps.items()
            if any(later < earlier for earlier, later in pairwise(steps))
        ]


@dataclass
class Mortal:
    """A process that can end at a command."""

    folder: Path
    process: Process
    server: Replica | None = None

    def go(self) -> None:
        """Start the process's search for work."""
        (self.folder / "go").touch()

    def plan(self, number: int, moment: str) -> None:
        """Choose the command at which the process ends, counted from now."""
        draft = self.folder / "draft"
        draft.write_text(f"{number} {moment}")
        draft.rename(self.folder / "plan")

    @property
    def has_died(self) -> bool:
        """Whether the process has ended as planned."""
        if self.process.returncode not in (None, CODE):
            raise AssertionError(f"a process ended with the code {self.process.returncode}: see {self.folder}")
        return self.process.returncode == CODE

    @property
    def death(self) -> str:
        """At which command the process has ended."""
        return (self.folder / "died").read_text()

    async def end(self) -> None:
        """Kill the process."""
        if self.server is not None:
            await self.server.client.aclose()
        await end(self.process)


@dataclass
class Stage:
    """The processes, and what they share."""

    place: Place
    folder: Path
    settings: Path
    effects: Effects
    redis_url: str
    prefix: str
    database_url: str
    key: str = ""
    mortals: list[Mortal] = field(default_factory=list[Mortal])
    """The processes of the kind that ends. The first one works; the others wait for their turn."""
    helpers: list[Mortal] = field(default_factory=list[Mortal])
    """A process of the other kind, if the runs are in a queue."""
    _count: int = 0
    _read: dict[Path, int] = field(default_factory=dict[Path, int])
    """How much of each log has been checked."""

    @property
    def server(self) -> Replica:
        """The server that clients ask."""
        for mortal in (*self.mortals, *self.helpers):
            if mortal.server is not None and mortal.process.returncode is None:
                return mortal.server
        raise AssertionError("no server is there")

    def native(self, agent: str) -> str:
        """Return the address of an agent in the native API."""
        return f"{self.server.client.base_url}".replace("/api/v1", "/native/v1").rstrip("/") + f"/agents/{agent}"

    async def start(self, kind: Literal["worker", "server"]) -> Mortal:
        """Start a process, which does not look for work yet."""
        self._count += 1
        folder = self.folder / f"{kind}{self._count}"
        folder.mkdir()
        program = Program("tests.harness.mortal_process", {VARIABLE: str(folder)}, folder / "log")
        if kind == "worker":
            return Mortal(folder, await start_worker(self.settings, program=program))
        server = await start_replica(self.settings, self.key, program=program, plays=self.place == "alone")
        self.key = server.key
        return Mortal(folder, server.process, server)

    async def prepare(self, spares: int) -> None:
        """Start what is missing: the process that is to end, and those that take over one after the other."""
        kind = "worker" if self.place == "worker" else "server"
        if not self.helpers and self.place != "alone":
            self.helpers.append(await self.start("server" if kind == "worker" else "worker"))
            self.helpers[0].go()
        while len(self.mortals) < spares + 1:
            self.mortals.append(await self.start(kind))
        self.mortals[0].go()

    async def replace_dead(self) -> Mortal:
        """End the first process if it has not died, and start the next one's work."""
        dead = self.mortals.pop(0)
        await dead.end()
        self.mortals[0].go()
        return dead

    async def queue_state(self) -> QueueState:
        """Return how long the queue is."""
        async with open_queue(self.redis_url, prefix=self.prefix) as queue:
            return await queue.state()

    async def rows(self, statement: str) -> list[Any]:
        """Execute a statement in the database. Return its rows, if there are any."""
        async with open_database(self.database_url) as database, database.writing() as db:
            result: Any = await db.execute(text(statement))
            return list(result) if result.returns_rows else []

    def new_log_problems(self) -> list[str]:
        """Return what the logs of all processes show since the last call: errors in the code, and repeated lines."""
        problems: list[str] = []
        for path in sorted(self.folder.glob("*/log")):
            with path.open(encoding="utf-8", errors="replace") as file:
                file.seek(self._read.get(path, 0))
                found = file.read()
                self._read[path] = file.tell()
            if "Traceback" in found:
                problems.append(f"{path.parent.name} has logged: {found[-1500:]}")
            lines = Counter(re.sub(r"[0-9a-f]{8,}|[\d.:]+", "#", line) for line in found.splitlines())
            problems += [f"logged {count} times: {line}" for line, count in lines.items() if count > MAX_REPEATED]
        return problems


@asynccontextmanager
async def open_stage(place: Place, rules: Any, database: str = "sqlite") -> AsyncGenerator[Stage]:
    """Start what the processes share. All processes end with the block."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ragflow-lg-deaths-")))
        effects = Effects()
        await stack.enter_async_context(effects.running())
        more = MORE_SETTINGS + (QUEUE_SETTINGS if place != "alone" else "")
        settings, redis_url, prefix = await start_shared_services(
            stack, folder, rules, effects.record_model, more, database
        )
        found = re.search(r'database = "([^"]*)"', settings.read_text())
        assert found is not None
        stage = Stage(place, folder, settings, effects, redis_url, prefix, found[1])
        try:
            yield stage
        finally:
            for mortal in (*stage.mortals, *stage.helpers):
                with suppress(ProcessLookupError):
                    await mortal.end()
