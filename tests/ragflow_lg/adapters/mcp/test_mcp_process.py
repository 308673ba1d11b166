import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage, JSONRPCRequest

from ragflow_lg.adapters.mcp.mcp_process import McpProcessSettings, open_process
from tests.harness.loaded_python import python_command

pytestmark = pytest.mark.slow

TINY = str(Path(__file__).parents[3] / "fakes" / "mcp_stdio.py")
ROOT = Path(__file__).parents[4]


def tiny(mode: str, **more: Any) -> McpProcessSettings:
    return McpProcessSettings(sys.executable, ("-S", TINY, mode), **more)


def call_message(tool: str, **arguments: Any) -> SessionMessage:
    params = {"name": tool, "arguments": arguments}
    return SessionMessage(JSONRPCMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/call", params=params)))


def text_of(message: Any) -> str:
    return message.message.root.result["content"][0]["text"]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    return False


def wait_for_exit(pids: list[int], limit_s: float = 5.0) -> list[int]:
    """Wait until all processes have ended; return those that have not."""
    end = time.monotonic() + limit_s
    while (left := [pid for pid in pids if is_alive(pid)]) and time.monotonic() < end:
        time.sleep(0.01)
    return left


async def test_the_environment_is_minimal_and_no_shell_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    lost: list[str] = []
    async with open_process(tiny("well", env={"TOKEN": "$(id)"}), "t", lost.append) as ((read, write), _):
        await write.send(call_message("environment"))
        names = text_of(await read.receive()).split()
    assert "TOKEN" in names
    assert "OPENAI_API_KEY" not in names
    assert set(names) <= {
        "HOME",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "LOGNAME",
        "PATH",
        "SHELL",
        "TERM",
        "TMPDIR",
        "TOKEN",
        "USER",
    }
    assert lost == []


async def test_lines_that_are_not_messages_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    async with open_process(tiny("garbage"), "t", lambda _: None) as ((read, write), _):
        await write.send(call_message("echo", a=1))
        messages = [await read.receive() for _ in range(2)]
    assert text_of(messages[1]) == '{"a": 1}'
    assert len([r for r in caplog.records if "that is not a message" in r.getMessage()]) == 1


async def test_a_message_that_is_too_large_ends_the_session() -> None:
    lost: list[str] = []
    async with open_process(tiny("well", max_bytes=10_000), "t", lost.append) as ((read, write), _):
        await write.send(call_message("huge", size=50_000))
        assert [message async for message in read] == []
    assert lost == ["The result is larger than the limit of 10,000 bytes (max_result_bytes)."]


async def test_the_exit_of_the_process_is_reported_and_its_stderr_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    lost: list[str] = []
    async with open_process(tiny("crash"), "t", lost.append) as ((read, write), _):
        assert [message async for message in read] == []
        await write.send(call_message("echo"))  # the process has ended; sending does not fail
    assert lost == ["The server process ended with exit code 7; see the log for its output."]
    levels = [record.levelname for record in caplog.records if "MCP server t: no such configuration" in record.message]
    assert levels == ["INFO", "WARNING"]


async def test_a_missing_command_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        async with open_process(McpProcessSettings("no-such-command-here"), "t", lambda _: None):
            pass


async def test_a_process_that_does_not_exit_is_killed_with_its_children() -> None:
    start = time.monotonic()
    async with open_process(tiny("stay"), "t", lambda _: None) as ((read, write), group):
        await write.send(call_message("process"))
        pids = [int(pid) for pid in text_of(await read.receive()).split()]
        assert pids[0] == group
    assert wait_for_exit(pids) == []
    assert time.monotonic() - start < 30


async def test_a_cancel_during_the_exit_kills_at_once() -> None:
    pids: list[int] = []
    is_started = asyncio.Event()

    async def hold() -> None:
        async with open_process(tiny("stay"), "t", lambda _: None) as ((read, write), _):
            await write.send(call_message("process"))
            pids.extend(int(pid) for pid in text_of(await read.receive()).split())
            is_started.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await is_started.wait()
    task.cancel()
    await asyncio.sleep(0.05)
    task.cancel()
    start = time.monotonic()
    await asyncio.wait({task})
    assert time.monotonic() - start < 20
    assert wait_for_exit(pids) == []


HOLDER = """
import asyncio, sys
from ragflow_lg.adapters.mcp.mcp_process import open_process
from tests.ragflow_lg.adapters.mcp.test_mcp_process import call_message, text_of, tiny

async def main():
    async with open_process(tiny("stay"), "t", print) as ((read, write), _):
        await write.send(call_message("process"))
        print(text_of(await read.receive()), flush=True)
        if sys.argv[1] == "crash":
            asyncio.get_running_loop().stop()
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("cause", ["SIGTERM", "SIGKILL", "crash"])
def test_the_processes_end_when_this_process_dies(cause: str) -> None:
    command = python_command("-c", HOLDER, cause)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT) as holder:
        assert holder.stdout is not None
        pids = [int(pid) for pid in holder.stdout.readline().split()]
        assert len(pids) == 2
        if cause != "crash":
            holder.send_signal(getattr(signal, cause))
        holder.wait(10)
    assert wait_for_exit(pids) == []
