"""Everything that an attack needs: replicas, their stores, models, and keys of two tenants."""

import asyncio
import os
import shutil
import sqlite3
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.database_servers import server as database_server
from tests.harness.loaded_python import python_command
from tests.harness.noisy.attack import Target
from tests.harness.noisy.attacker import LOW_PRIORITY
from tests.harness.redis_server import redis_server
from tests.stores import fresh_prefix

ROOT = Path(__file__).parents[3]
SERVER = (sys.executable, "-m", "ragflow_lg")
RULES = '[[rules]]\nreplies = [{ text = ["It ", "is ", "on ", "its ", "way."] }]\n'
DATABASE = "server.db"
MCP_SERVERS = ("hanging", "stuck", "large", "plain")
SETTINGS = """
checkpoints = "{redis_url}"
checkpoint_prefix = "{prefix}"
default_model = "any@Mock"
[providers.Mock]
base_url = "{model}"
[providers.Neighbour]
base_url = "{neighbour_model}"
[providers.Hostile]
base_url = "{upstream}/v1"
{mcp_servers}
[tenants.attacker]
providers = ["*"]
mcp = ["*"]
http_allow = ["127.0.0.1"]
[server]
database = "{database}"
files = "{folder}/files"
ragflow_ui = "{folder}/ui"
[server.users."ann@example.com"]
password = "the password of Ann"
"""


@dataclass
class Replica:
    """A server process."""

    process: Process
    url: str


@dataclass
class Prepared:
    """An SQLite database with keys, which new stages copy: creating one takes seconds."""

    database: Path
    neighbour_key: str
    keys: Mapping[str, str]


@dataclass
class Stage:
    """The processes that run, and the keys for them."""

    folder: Path
    settings: Path
    upstream: str
    command: Sequence[str] = SERVER
    replicas: list[Replica] = field(default_factory=list[Replica])
    neighbour_key: str = ""
    keys: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def target(self) -> Target:
        """What the attacker knows."""
        urls = [replica.url for replica in self.replicas]
        return Target(urls=urls, key=self.keys["api"], beta_key=self.keys["beta"], upstream=self.upstream)

    @property
    def log(self) -> Path:
        """The errors that the servers have written."""
        return self.folder / "server.log"

    def use(self, prepared: Prepared) -> None:
        """Start with a copy of a database that has keys already."""
        shutil.copy(prepared.database, self.folder / DATABASE)
        self.neighbour_key, self.keys = prepared.neighbour_key, dict(prepared.keys)

    def prepare(self, folder: Path) -> Prepared:
        """Copy the database, which nobody has used, with its keys into a folder."""
        source, target = sqlite3.connect(self.folder / DATABASE), sqlite3.connect(folder / DATABASE)
        with closing(source), closing(target):
            source.backup(target)
        return Prepared(folder / DATABASE, self.neighbour_key, self.keys)

    async def start_replica(self) -> None:
        """Start one more server; create the keys after the first one has created the database."""
        arguments = ["serve", "--port", "0", "--settings", str(self.settings)]
        with self.log.open("ab") as errors:
            process = await _start([*self.command, *arguments], self.folder, errors.fileno())
        url = await _read_line(process)
        assert url, f"The server did not start: {self.log.read_text()}"
        self.replicas.append(Replica(process, url))
        if not self.neighbour_key:
            wanted = (("default",), ("attacker",), ("attacker", "--beta", "--all-agents"))
            self.neighbour_key, *keys = await asyncio.gather(*(self._create_key(*options) for options in wanted))
            self.keys = dict(zip(("api", "beta"), keys, strict=True))

    async def _create_key(self, tenant: str, *arguments: str) -> str:
        options = [tenant, "--tenant", tenant, "--settings", str(self.settings)]
        with self.log.open("ab") as errors:
            command = python_command("-m", "ragflow_lg", "keys", "create", *arguments, *options)
            process = await _start(command, self.folder, errors.fileno())
            output, _ = await process.communicate()
        key = output.decode().strip()
        assert key, f"There is no key: {self.log.read_text()}"
        return key

    async def stop(self) -> None:
        """Stop all replicas."""
        for replica in self.replicas:
            await _kill(replica.process)


@dataclass
class Services:
    """What all stages share: Redis, a model for each tenant, and the hostile server."""

    redis_url: str
    has_postgresql: bool
    model: str
    """The attacker's model. The neighbour has its own, since a real provider does not slow down for one customer."""
    neighbour_model: str
    upstream: str
    folder: Path
    prepared: Prepared | None = None

    @asynccontextmanager
    async def stage(self, folder: Path, replicas: int, command: Sequence[str] = SERVER) -> AsyncGenerator[Stage]:
        """Start new servers with a new database."""
        async with AsyncExitStack() as stack:
            url = stack.enter_context(database_server("postgresql")) if self.has_postgresql else ""
            stage = Stage(folder, self._write_settings(folder, url), self.upstream, command)
            stack.push_async_callback(stage.stop)
            if self.prepared is not None:
                stage.use(self.prepared)
            for _ in range(replicas):
                await stage.start_replica()
            if self.prepared is None and not self.has_postgresql:
                self.prepared = stage.prepare(self.folder)
            yield stage

    def _write_settings(self, folder: Path, database: str) -> Path:
        (folder / "ui").mkdir()
        (folder / "ui" / "index.html").write_text("<html></html>")
        settings = folder / "settings.toml"
        settings.write_text(
            SETTINGS.format(
                redis_url=self.redis_url,
                prefix=fresh_prefix(),
                model=self.model,
                neighbour_model=self.neighbour_model,
                upstream=self.upstream,
                mcp_servers="".join(
                    f'[mcp.{name}]\nurl = "{self.upstream}/mcp/{name}"\ntype = "streamable-http"\n'
                    for name in MCP_SERVERS
                ),
                database=database or f"sqlite:///{folder}/{DATABASE}",
                folder=folder,
            )
        )
        return settings


@asynccontextmanager
async def start_services(folder: Path, *, has_postgresql: bool) -> AsyncGenerator[Services]:
    """Start what all stages share."""
    async with AsyncExitStack() as stack:
        prepared_folder = folder / "prepared"
        prepared_folder.mkdir()
        rules = folder / "rules.toml"
        rules.write_text(RULES)
        model_command = python_command("-m", "ragflow_lg", "mock-llm", rules)
        neighbour_model = await stack.enter_async_context(_running(model_command, folder))
        slow = ("nice", "-n", str(LOW_PRIORITY), *SERVER, "mock-llm", str(rules))
        model = await stack.enter_async_context(_running(slow, folder))
        hostile = python_command("-m", "tests.harness.noisy.upstream")
        upstream = await stack.enter_async_context(_running(hostile, folder))
        yield Services(
            stack.enter_context(redis_server()), has_postgresql, model, neighbour_model, upstream, prepared_folder
        )


@asynccontextmanager
async def _running(command: Sequence[str], folder: Path) -> AsyncGenerator[str]:
    """Run a process that prints its address; yield the address."""
    process = await _start(command, folder)
    try:
        yield await _read_line(process)
    finally:
        await _kill(process)


async def _start(command: Sequence[str], folder: Path, errors: int = DEVNULL) -> Process:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=errors, cwd=folder, env=environment)


async def _kill(process: Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _read_line(process: Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()
