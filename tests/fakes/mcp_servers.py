"""MCP servers for tests: an in-memory one, and settings and processes of the two programs."""

import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.integrations.mcp.mcp_servers import McpServers
from ragflow_lg.integrations.mcp.mcp_settings import McpServerSettings
from ragflow_lg.services.tool_policies import ServerAnswer
from tests.harness.loaded_python import python_command

ROOT = Path(__file__).parents[2]
REAL = ("-P", str(ROOT / "tests" / "fakes" / "mcp_server.py"))
TINY = ("-S", str(Path(__file__).parent / "mcp_stdio.py"))


class FakeServer:
    """A server with scripted answers that records its calls."""

    def __init__(self, *answers: Any, denied: str = "") -> None:
        self.answers = list(answers)
        self.denied = denied
        self.calls: list[tuple[str, Mapping[str, Any], Mapping[str, str]]] = []

    def check(self, tool: str) -> None:
        if tool == self.denied:
            raise SettingsError(f"The settings do not allow {tool!r}.")

    async def call(self, tool: str, arguments: Mapping[str, Any], headers: Mapping[str, str]) -> ServerAnswer:
        self.calls.append((tool, arguments, headers))
        answer = self.answers.pop(0) if self.answers else ServerAnswer(("ok",))
        if isinstance(answer, Exception):
            raise answer
        return answer


@contextmanager
def http_server(port: int) -> Generator[subprocess.Popen[bytes]]:
    """Start the SDK server with both HTTP transports; yield its process once it listens on the port."""
    command = python_command("-m", "tests.fakes.mcp_server", str(port))
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        try:
            end = time.monotonic() + 120
            while not _is_served(port):
                assert process.poll() is None
                assert time.monotonic() < end
                time.sleep(0.02)
            yield process
        finally:
            process.kill()
            wait_until_closed(port)  # the program ends after the process that asked for it


def wait_until_closed(port: int) -> None:
    """Wait until nothing listens on the port; the test fails after two minutes."""
    end = time.monotonic() + 120
    while _is_served(port):
        assert time.monotonic() < end
        time.sleep(0.002)


def _is_served(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def stdio(*args: str, **more: Any) -> McpServerSettings:
    """Return settings of a server that is started by Python with these arguments."""
    options: dict[str, Any] = {"initialize_timeout_s": 30, **more}
    return McpServerSettings("stdio", sys.executable, args, **options)


def real_stdio(**more: Any) -> McpServerSettings:
    """Return settings of the SDK server over stdio."""
    return stdio(*python_command("-m", "tests.fakes.mcp_server")[1:], **more)


def tiny(how: str = "well", **more: Any) -> McpServerSettings:
    """Return settings of the minimal server; ``how`` selects its misbehavior."""
    return stdio(*TINY, how, **more)


def over_http(port: int, path: str = "/mcp", **more: Any) -> McpServerSettings:
    """Return settings of the SDK server over HTTP; the path ``/sse`` selects SSE."""
    options: dict[str, Any] = {"kind": "sse" if path == "/sse" else "streamable-http", "timeout_s": 5, **more}
    return McpServerSettings(url=f"http://127.0.0.1:{port}{path}", **options)


@asynccontextmanager
async def servers_of(**settings: McpServerSettings) -> AsyncGenerator[McpServers]:
    """Open servers by id and close them at the end."""
    http = GuardedHttpClient(HttpSettings(allow=("127.0.0.1",)))
    servers = McpServers(settings, http)
    try:
        yield servers
    finally:
        await servers.aclose()
        await http.aclose()


async def text_of(servers: McpServers, tool: str, id_: str = "s", **arguments: Any) -> str:
    """Call a tool and return its texts."""
    return "\n".join((await servers[id_].call(tool, arguments, {})).texts)
