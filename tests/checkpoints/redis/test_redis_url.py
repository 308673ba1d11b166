import asyncio
import subprocess
from pathlib import Path

import pytest

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.redis.redis_client import check_server
from ragflow_lg.checkpoints.redis.redis_url import create_client
from ragflow_lg.services.sessions import RunRecord
from tests.harness.redis_server import candidates
from tests.harness.rows import each_row


@each_row(
    ("url", "reason"),
    [
        ("redis://host:port", "its port must be a number"), ("redis://host:99999", "its port must be a number"),
        ("redis+sentinel://127.0.0.1:1", "has no service name"),
        ("redis+sentinel://h:x/service", "its port must be a number"),
        ("redis+sentinel://h:99999/service", "its port must be a number"),
        ("redis+sentinel://h:1/s/db", "'db' .* is not a number"),
        ("redis+cluster://h:x/shop", "its port must be a number"),
        ("redis+cluster://h:1/a{b", "the name 'a{b' may have"),
    ],
)  # fmt: skip
def test_an_invalid_url_is_reported(url: str, reason: str) -> None:
    with pytest.raises(CheckpointError, match=f"is invalid: .*{reason}"):
        create_client(url)


async def test_an_unreachable_sentinel_is_reported_in_words() -> None:
    with pytest.raises(CheckpointError, match=r"No master found for 'main': no Sentinel answers") as error:
        await check_server("redis+sentinel://127.0.0.1:1/main")
    assert "<" not in str(error.value)


async def test_the_master_is_found_through_a_sentinel(redis_url: str, tmp_path: Path) -> None:
    port = redis_url.rpartition(":")[2]
    file = tmp_path / "sentinel.conf"
    file.write_text(f"port 0\nunixsocket {tmp_path}/s\nsentinel monitor main 127.0.0.1 {port} 1\n")
    candidate = next(iter(candidates()))
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
                    await check_server(url)
                    break
                except CheckpointError:
                    await asyncio.sleep(0.05)
        async with open_store(url, prefix="sentinel:") as store:
            await store.runs.put(RunRecord("r", "s"))
        async with open_store(redis_url, prefix="sentinel:") as store:
            assert await store.runs.get("r") is not None
    finally:
        process.terminate()
        process.wait()


async def _free_port() -> int:
    def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pass

    server = await asyncio.start_server(ignore, "127.0.0.1", 0)
    async with server:
        return server.sockets[0].getsockname()[1]
