"""Upgrade servers and workers while clients use them: ``python -m tests.campaigns upgrade COMMIT``.

A server and a worker of an earlier commit share Redis and a database with those of today. One session waits at a form,
one run is in the middle of an answer, one waits in the queue. First the worker is replaced, then the server. Every
stream must be whole, and the form can be answered afterwards.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
from asyncio.subprocess import Process
from contextlib import AsyncExitStack
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx

from tests.fakes.mock_llm import MockLLM, reply
from tests.harness.first_key import read_first_key
from tests.harness.redis_server import redis_server
from tests.server.cli.command import ROOT
from tests.server.http.app_server import FORM
from tests.server.queue_processes import end
from tests.server.replicas import SETTINGS, TWO_MESSAGES
from tests.stores import fresh_prefix

PATH = "/api/v1/agents/chat/completions"
PIECES = [f"w{number} " for number in range(40)]
WHOLE = "".join(PIECES) * 2
LIMIT_S = 180.0
MORE = """
[queue]
url = "{redis_url}"
silence_s = 2.0
"""


def extract(commit: str, folder: Path) -> Path:
    """Write the files of a commit to a folder."""
    data = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(data)) as archive:
        archive.extractall(folder, filter="tar")
    return folder


class Site:
    """The processes of both versions, by name, and their clients."""

    def __init__(self, settings: Path) -> None:
        self.settings = settings
        self.key = ""
        self.processes: list[Process] = []

    async def start(self, code: Path, *command: str) -> tuple[Process, str]:
        """Start a command with the code in a folder; return the process and the first line of its output."""
        arguments = ["-m", "ragflow_lg", *command, "--model", "any@Mock", "--settings", str(self.settings)]
        environment = {**os.environ, "PYTHONPATH": str(code)}
        place: dict[str, Any] = {"cwd": self.settings.parent, "env": environment, "stdout": asyncio.subprocess.PIPE}
        process = await asyncio.create_subprocess_exec(sys.executable, *arguments, **place)
        self.processes.append(process)
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode().strip()
        if command[0] == "serve" and not self.key:
            self.key = read_first_key(await process.stdout.readline())
        return process, line

    def client(self, url: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {self.key}"}, timeout=LIMIT_S)

    async def stop(self) -> None:
        for process in self.processes:
            await end(process)


class Reader:
    """A client of a stream that reconnects to the newest server."""

    def __init__(self, clients: list[httpx.AsyncClient], agent: str) -> None:
        self._clients = clients
        self._body = {"agent_id": agent, "query": "hi", "stream": True}
        self.text = ""
        self.ends = 0

    async def read(self) -> None:
        last = id_ = ""
        while True:
            headers = {"X-RAGFlow-Event-Ids": "true", **({"Last-Event-ID": last} if last else {})}
            try:
                async with self._clients[-1].stream("POST", PATH, json=self._body, headers=headers) as answer:
                    async for line in answer.aiter_lines():
                        if line.startswith("id:"):
                            id_ = line[3:]
                        elif line == "data:[DONE]":
                            return
                        elif line.startswith("data:"):
                            frame = json.loads(line[5:])
                            last = id_
                            self._body["session_id"] = frame["session_id"]
                            self.ends += frame["event"] == "workflow_finished"
                            self.text += frame["data"]["content"] if frame["event"] == "message" else ""
            except httpx.TransportError:
                await asyncio.sleep(0.1)

    async def has_read(self, text: str) -> None:
        while text not in self.text:
            await asyncio.sleep(0.02)


async def _create(client: httpx.AsyncClient, title: str, dsl: dict[str, Any]) -> str:
    return (await client.post("/api/v1/agents", json={"title": title, "dsl": dsl})).json()["data"]["id"]


async def upgrade(old: Path) -> list[str]:
    """Replace the processes of an earlier version one after the other; return what went wrong."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ragflow-lg-upgrade-")))
        redis_url = stack.enter_context(redis_server())
        model = await stack.enter_async_context(MockLLM([reply(*PIECES, piece_delay_s=0.1)]))
        settings = folder / "settings.toml"
        places: dict[str, Any] = {"redis_url": redis_url, "prefix": fresh_prefix(), "base_url": model.base_url}
        text = SETTINGS.format(folder=folder, silence_s=2.0, takeovers=2, **places) + MORE.format(redis_url=redis_url)
        settings.write_text(text)
        site = Site(settings)
        stack.push_async_callback(site.stop)
        server, url = await site.start(old, "serve", "--port", "0")
        worker, _ = await site.start(old, "worker", "--concurrency", "1")
        clients = [site.client(url)]
        form, two = await _create(clients[0], "form", FORM), await _create(clients[0], "two", TWO_MESSAGES)
        paused = (await clients[0].post(f"/native/v1/agents/{form}/runs", json={"query": "hi"})).json()
        playing, queued = Reader(clients, two), Reader(clients, two)
        readers = [asyncio.create_task(playing.read())]
        await playing.has_read("w5 ")
        readers.append(asyncio.create_task(queued.read()))  # the worker plays one run at a time
        await site.start(ROOT, "worker", "--concurrency", "1")
        worker.send_signal(signal.SIGTERM)
        await worker.wait()
        await playing.has_read("w39 w0 ")
        _, url = await site.start(ROOT, "serve", "--port", "0")
        clients.append(site.client(url))
        server.send_signal(signal.SIGTERM)
        await server.wait()
        async with asyncio.timeout(LIMIT_S):
            await asyncio.gather(*readers)
        problems = [
            f"{each.ends} ends, {each.text!r}" for each in (playing, queued) if (each.text, each.ends) != (WHOLE, 1)
        ]
        path = f"/native/v1/agents/{form}/runs/{paused['id']}"
        done = (await clients[-1].post(f"{path}/resume", json={"fields": {"size": 42}})).json()
        if done.get("answer") != "Size 42":
            problems.append(f"the form: {done}")
        for client in clients:
            await client.aclose()
        return problems


def main() -> int:
    """Print what went wrong; return 1 if something did."""
    with tempfile.TemporaryDirectory(prefix="ragflow-lg-earlier-") as folder:
        problems = asyncio.run(upgrade(extract(sys.argv[1], Path(folder))))
    sys.stdout.write("".join(f"{problem}\n" for problem in problems))
    sys.stdout.write(f"upgrade from {sys.argv[1]}: {len(problems)} problems\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
