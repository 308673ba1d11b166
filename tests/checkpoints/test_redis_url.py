from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from checkpoints import open_store
from checkpoints.redis_server import _candidates, missing_modules  # pyright: ignore[reportPrivateUsage]
from checkpoints.redis_url import shown_url
from ragflow_lg.adapters.system import SystemClock
from ragflow_lg.errors import CheckpointError
from ragflow_lg.sessions import RunRecord


@pytest.mark.parametrize(
    "url",
    ["redis://host:port", "redis+sentinel://127.0.0.1:1", "redis+sentinel://h:x/service", "redis+sentinel://h:1/s/db"],
)
def test_a_url_that_cannot_be_read_is_told(url: str) -> None:
    with pytest.raises(CheckpointError, match="cannot be read"):
        missing_modules(url)


def test_a_password_is_not_shown() -> None:
    assert shown_url("redis+sentinel://me:secret@a:1,b:2/s") == "redis+sentinel://a:1,b:2/s"


async def test_the_master_is_found_through_a_sentinel(redis_url: str, tmp_path: Path) -> None:
    port = redis_url.rpartition(":")[2]
    file = tmp_path / "sentinel.conf"
    file.write_text(f"port 0\nunixsocket {tmp_path}/s\nsentinel monitor main 127.0.0.1 {port} 1\n")
    candidate = next(iter(_candidates()))
    own_port = await _free_port()
    process = subprocess.Popen(
        [candidate.command[0], str(file), "--sentinel", "--port", str(own_port), "--dir", str(tmp_path)],
        env={**dict(candidate.environment), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.DEVNULL,
    )
    try:
        url = f"redis+sentinel://127.0.0.1:{own_port}/main/0"
        async with asyncio.timeout(10):
            while True:
                try:
                    assert await asyncio.to_thread(missing_modules, url) == []
                    break
                except CheckpointError:
                    await asyncio.sleep(0.05)
        async with open_store(url, SystemClock(), prefix="sentinel:") as store:
            await store.runs.put(RunRecord("r", "s"))
        async with open_store(redis_url, SystemClock(), prefix="sentinel:") as store:
            assert await store.runs.get("r") is not None
    finally:
        process.terminate()
        process.wait()


async def _free_port() -> int:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    async with server:
        return server.sockets[0].getsockname()[1]
