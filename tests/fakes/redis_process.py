"""A Redis server that can be killed and started again with the data that it has stored."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import redis
from redis.crc import key_slot

from tests.harness import redis_server as servers
from tests.harness.database_servers import free_port

RDB = ("--appendonly", "no")
"""Options of a server that stores its data only after ``SAVE``."""
AOF = ("--appendonly", "yes", "--appendfsync", "everysec")


class RedisProcess:
    """The server. It keeps its port and its folder when it is started again."""

    def __init__(self, folder: Path, stack: ExitStack, *options: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self._stack = stack
        self._options = options
        folder.mkdir(exist_ok=True)
        self.start()

    def start(self) -> None:
        self._stack.enter_context(servers.redis_server(self.folder, self.port, self._options))

    def request(self, *command: Any) -> Any:
        """Execute a command."""
        client: Any = redis.Redis(port=self.port)
        with client:
            return client.execute_command(*command)

    def kill(self) -> None:
        """Kill the server and wait until it has ended."""
        pid = int(self.request("INFO", "server")["process_id"])
        os.kill(pid, signal.SIGKILL)
        while True:  # its parent collects it only at the end of the test
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
            time.sleep(0.005)

    def save_in_background(self) -> None:
        """Let the server write a snapshot to ``dump.rdb`` in its folder."""
        before = self.request("LASTSAVE")
        time.sleep(1.1)  # the times of snapshots are in seconds
        self.request("BGSAVE")
        while self.request("LASTSAVE") == before:
            time.sleep(0.02)

    def dump(self, file: Path) -> None:
        """Write a snapshot to a file, as a replica receives it: what ``redis-cli --rdb FILE`` does."""
        process = Path("/proc") / str(self.request("INFO", "server")["process_id"])
        command = [(process / "exe").readlink().with_name("redis-cli"), "-p", str(self.port), "--rdb", file]
        environment = {**os.environ, "LD_LIBRARY_PATH": str(servers.LIBRARIES)}
        done = subprocess.run(command, capture_output=True, check=False, env=environment)
        assert not done.returncode, done.stderr

    def log_sizes(self) -> dict[Path, int]:
        """Return the sizes of the files of the append-only log."""
        return {path: path.stat().st_size for path in self.folder.glob("appendonlydir/*.incr.aof")}


@contextmanager
def redis_process(folder: Path, *options: str) -> Generator[RedisProcess]:
    """Start a server that ends with the block."""
    with ExitStack() as stack:
        yield RedisProcess(folder, stack, *options)


@contextmanager
def redis_cluster(folder: Path, replica_of: str = "") -> Generator[list[RedisProcess]]:
    """Start a cluster of three masters, and a replica of the master that has the slot of the name ``replica_of``."""
    options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0")
    with ExitStack() as stack:
        ports = [str(free_port()) for _ in range(4 if replica_of else 3)]
        nodes = [
            RedisProcess(folder / port, stack, *options, "--cluster-port", port, "--appendonly", "no") for port in ports
        ]
        for number, node in enumerate(nodes[:3]):
            node.request("CLUSTER", "ADDSLOTSRANGE", number * 5500, min(number * 5500 + 5499, 16383))
        for node in nodes[1:]:
            node.request("CLUSTER", "MEET", "127.0.0.1", nodes[0].port, ports[0])
        _wait_until(
            lambda: all(b"cluster_known_nodes:%d" % len(nodes) in node.request("CLUSTER", "INFO") for node in nodes)
        )
        if replica_of:
            master = master_of(nodes, replica_of).request("CLUSTER", "MYID")
            _wait_until(lambda: nodes[3].request("CLUSTER", "REPLICATE", master))
            _wait_until(lambda: nodes[3].request("INFO", "replication")["master_link_status"] == "up")
        _wait_until(lambda: all(b"cluster_state:ok" in node.request("CLUSTER", "INFO") for node in nodes))
        yield nodes


def master_of(nodes: list[RedisProcess], name: str) -> RedisProcess:
    """Return the node that a cluster starts as the master of the slot of a name."""
    return nodes[key_slot(name.encode()) // 5500]


def _wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with suppress(redis.RedisError):
            if condition():
                return
        time.sleep(0.05)
    raise AssertionError("The cluster did not become ready.")


@contextmanager
def sentinel_of(master: RedisProcess, folder: Path) -> Generator[str]:
    """Run a Sentinel that watches a server as ``sessions``. Yield the URL of the service."""
    candidates: Any = servers.candidates()  # pyright: ignore[reportPrivateUsage] - the same program as the server
    candidate: Any = next(iter(candidates))
    program: str = candidate.command[0]
    port, file = free_port(), folder / "sentinel.conf"
    lines = [f"port {port}", "bind 127.0.0.1", f"dir {folder}"]
    lines += [f"sentinel monitor sessions 127.0.0.1 {master.port} 1"]
    lines += ["sentinel down-after-milliseconds sessions 2000", "sentinel failover-timeout sessions 6000"]
    file.write_text("\n".join(lines) + "\n")
    environment: dict[str, str] = {**os.environ, **candidate.environment}
    process = subprocess.Popen(
        [program, str(file), "--sentinel"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield f"redis+sentinel://127.0.0.1:{port}/sessions"
    finally:
        process.kill()
        process.wait()
