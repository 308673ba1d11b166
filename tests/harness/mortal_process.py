"""A server or worker that ends at a given command: ``python -m tests.harness.mortal_process ARGUMENTS``.

It does what ``python -m ragflow_lg ARGUMENTS`` does. ``MORTAL_FOLDER`` is a folder for messages of
`tests.harness.deaths`:

- ``go``: from now on, the process looks for work. Before that, a worker takes no runs, and a server starts nothing
  by itself.
- ``plan``: a number and ``before`` or ``after``. The process ends at once before it sends the command to Redis, or
  commits the transaction, with this number, or after its answer. Numbers count from 1 since there is the file.

The process writes to ``died`` which command that was. Only what others depend on is counted: commands that write, but
not the reports that a process is alive.
It looks to others like a process on another machine, and all its periods are shorter.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import redis.asyncio.connection
from sqlalchemy.engine.default import DefaultDialect

from ragflow_lg.checkpoints.records import leases
from ragflow_lg.server.cli.entry import main
from ragflow_lg.server.runs import due_tasks
from ragflow_lg.server.runs.run_worker import QueueWorker

VARIABLE = "MORTAL_FOLDER"
CODE = 9
"""The exit code of a process that has ended as planned."""
CLAIM_MS = 1500
LOOK_S = 0.2
_READS = frozenset(
    b"AUTH CLIENT EXISTS FT.INFO FT.SEARCH GET HELLO HEXISTS HGET HGETALL HKEYS HMGET JSON.GET MGET PING SELECT "
    b"SUBSCRIBE UNSUBSCRIBE XAUTOCLAIM XCLAIM XINFO XLEN XPENDING XRANGE XREAD XREADGROUP XREVRANGE ZCARD ZRANGE "
    b"ZRANK".split()
)
"""Commands that change nothing that another process depends on."""
_REPORT = b"agent:player:"


class Death:
    """Counts commands, and ends the process at one of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._count = self._number = 0
        self._moment = ""

    def has_work(self) -> bool:
        """Return whether the process may look for work."""
        return (self._folder / "go").exists()

    def begin(self, name: str) -> str:
        """Count a command that is about to be sent, and return its name if the process ends after it."""
        with self._lock:
            if not self._number:
                if not (plan := self._folder / "plan").exists():
                    return ""
                number, self._moment = plan.read_text().split()
                self._number = int(number)
            self._count += 1
            if self._count != self._number:
                return ""
        if self._moment == "before":
            self.end(name)
        return name

    def end(self, name: str) -> None:
        """End the process."""
        (self._folder / "died").write_text(f"{self._moment} {self._number}: {name}")
        os._exit(CODE)


def _name(command: Any) -> str:
    """Return the name and the first key of the first of some packed commands, or ``""`` if it is not counted."""
    data: bytes = command if isinstance(command, bytes) else b"".join(command)
    parts = data[:20_000].split(b"\r\n")
    if parts[2] == b"MULTI":
        parts = parts[3:]
    word = parts[2].upper()
    place = 8 if word in (b"EVAL", b"EVALSHA") else 4
    key = parts[place] if len(parts) > place else b""
    return "" if word in _READS or _REPORT in key else f"{word.decode()} {key.decode(errors='replace')}"


def _watch_redis(death: Death) -> None:
    kind: Any = redis.asyncio.connection.AbstractConnection
    send, read = kind.send_packed_command, kind.read_response

    async def send_packed_command(self: Any, command: Any, check_health: bool = True) -> None:
        if name := _name(command):
            self.last_name = death.begin(name)
        await send(self, command, check_health)

    async def read_response(self: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return await read(self, *arguments, **options)
        finally:
            if name := getattr(self, "last_name", ""):
                death.end(name)

    kind.send_packed_command, kind.read_response = send_packed_command, read_response


def _watch_database(death: Death) -> None:
    kind: Any = DefaultDialect
    commit: Callable[[Any, Any], None] = kind.do_commit

    def do_commit(self: Any, connection: Any) -> None:
        name = "" if threading.current_thread().name == "database-reading" else death.begin("COMMIT")
        commit(self, connection)
        if name:
            death.end(name)

    kind.do_commit = do_commit


def _wait_for_work(death: Death) -> None:
    tasks: Any = due_tasks.DueTasks
    worker: Any = QueueWorker
    take, look = worker._take, tasks.look

    async def take_later(self: Any) -> None:
        while not death.has_work() and not self._stopping.is_set():
            await asyncio.sleep(0.01)
        await take(self)

    async def look_later(self: Any) -> bool:
        return death.has_work() and await look(self)

    worker._take = take_later
    tasks.look = look_later


if __name__ == "__main__":
    _death = Death(Path(os.environ[VARIABLE]))
    cast("Any", leases)._machine = lambda: f"machine-{os.getpid()}"
    due_tasks.CLAIM_MS, due_tasks.LOOK_S = CLAIM_MS, LOOK_S
    _watch_redis(_death)
    _watch_database(_death)
    _wait_for_work(_death)
    sys.argv[0] = "ragflow-lg"
    main()
