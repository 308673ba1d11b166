import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from ragflow_lg.server.http.edge.listening_socket import open_socket
from ragflow_lg.server.http.edge.uvicorn_server import start_server
from tests.fakes.services import Reply
from tests.server.http.app_server import MODEL, start_app


async def _app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize(("drain_s", "is_stopped"), [(0.05, False), (60, True)])
async def test_the_draining_is_limited_in_time(drain_s: float, is_stopped: bool) -> None:
    stop_now = asyncio.Event()
    if is_stopped:
        stop_now.set()

    async def drain() -> None:
        await asyncio.Event().wait()

    async with (
        asyncio.timeout(10),
        start_server(_app, open_socket("127.0.0.1", 0), drain, drain_s, stop_now) as url,
        httpx.AsyncClient() as client,
    ):
        assert (await client.get(url)).status_code == 204


async def test_a_drained_server_refuses_runs(tmp_path: Path) -> None:
    async with start_app(tmp_path, [Reply("one")]) as server:
        agent_id = await server.agent(MODEL)
        await server.app_state.run_manager.drain()
        answer = await server.ask(agent_id, stream=True)
        assert (answer["code"], "shutting down" in answer["message"]) == (500, True)
        assert server.model.requests == []


def test_run_tunes_the_interpreter_for_latency() -> None:
    program = (
        "import asyncio, gc, sys\nfrom ragflow_lg.server.http.edge.uvicorn_server import freeze_objects, run\n"
        "async def main():\n    freeze_objects()\n"
        "    print(type(asyncio.get_running_loop()).__module__)\n"
        "    print(gc.get_threshold()[0], gc.get_freeze_count() > 10_000)\n"
        "    print(sys.getswitchinterval() < 0.005)\nrun(main())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split()[-3:] == ["20000", "True", "True"]
    assert sys.platform == "win32" or done.stdout.startswith("uvloop")
