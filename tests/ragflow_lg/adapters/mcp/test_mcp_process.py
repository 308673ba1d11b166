from __future__ import annotations

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

from ragflow_lg.adapters.mcp.mcp_process import McpProcessSettings, process_streams

TINY = str(Path(__file__).parents[3] / "fakes" / "mcp_stdio.py")
ROOT = Path(__file__).parents[4]


def tiny(how: str, **more: Any) -> McpProcessSettings:
    return McpProcessSettings(sys.executable, ("-S", TINY, how), **more)


def calling(tool: str, **arguments: Any) -> SessionMessage:
    params = {"name": tool, "arguments": arguments}
    return SessionMessage(JSONRPCMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/call", params=params)))


def text_of(message: Any) -> str:
    return message.message.root.result["content"][0]["text"]


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    return False


def until_gone(pids: list[int], limit_s: float = 5.0) -> list[int]:
    """Wait until no process is left; give those that are."""
    end = time.monotonic() + limit_s
    while (left := [pid for pid in pids if is_there(pid)]) and time.monotonic() < end:
        time.sleep(0.01)
    return left


async def test_the_environment_is_small_and_arguments_are_no_shell_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    lost: list[str] = []
    async with process_streams(tiny("well", env={"TOKEN": "$(id)"}), "t", lost.append) as ((read, write), _):
        await write.send(calling("environment"))
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


async def test_lines_that_are_no_messages_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    async with process_streams(tiny("garbage"), "t", lambda _: None) as ((read, write), _):
        await write.send(calling("echo", a=1))
        found = [await read.receive() for _ in range(2)]
    assert text_of(found[1]) == '{"a": 1}'
    assert len([r for r in caplog.records if "no message" in r.getMessage()]) == 1


async def test_a_message_that_is_too_large_ends_the_session() -> None:
    lost: list[str] = []
    async with process_streams(tiny("well", max_bytes=10_000), "t", lost.append) as ((read, write), _):
        await write.send(calling("huge", size=50_000))
        assert [message async for message in read] == []
    assert lost == ["The answer is larger than the limit of 10,000 bytes (max_result_bytes)."]


async def test_the_end_of_the_process_is_told_and_its_words_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    lost: list[str] = []
    async with process_streams(tiny("crash"), "t", lost.append) as ((read, write), _):
        assert [message async for message in read] == []
        await write.send(calling("echo"))  # nobody reads it, nothing fails
    assert lost == ["The server's process has ended with exit code 7; the log has what it wrote."]
    told = [record.levelname for record in caplog.records if "MCP server t: no such configuration" in record.message]
    assert told == ["INFO", "WARNING"]


async def test_a_command_that_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        async with process_streams(McpProcessSettings("no-such-command-here"), "t", lambda _: None):
            pass


async def test_a_process_that_will_not_go_is_killed_with_its_children() -> None:
    started = time.monotonic()
    async with process_streams(tiny("stay"), "t", lambda _: None) as ((read, write), group):
        await write.send(calling("process"))
        pids = [int(pid) for pid in text_of(await read.receive()).split()]
        assert pids[0] == group
    assert until_gone(pids) == []
    assert time.monotonic() - started < 4


async def test_a_cancel_while_it_ends_kills_at_once() -> None:
    pids: list[int] = []
    is_started = asyncio.Event()

    async def hold() -> None:
        async with process_streams(tiny("stay"), "t", lambda _: None) as ((read, write), _):
            await write.send(calling("process"))
            pids.extend(int(pid) for pid in text_of(await read.receive()).split())
            is_started.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await is_started.wait()
    task.cancel()
    await asyncio.sleep(0.05)
    task.cancel()
    started = time.monotonic()
    await asyncio.wait({task})
    assert time.monotonic() - started < 0.5
    assert until_gone(pids) == []


HOLDER = """
import asyncio, sys
from ragflow_lg.adapters.mcp.mcp_process import process_streams
from tests.ragflow_lg.adapters.mcp.test_mcp_process import calling, text_of, tiny

async def main():
    async with process_streams(tiny("stay"), "t", print) as ((read, write), _):
        await write.send(calling("process"))
        print(text_of(await read.receive()), flush=True)
        if sys.argv[1] == "crash":
            asyncio.get_running_loop().stop()
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL", "crash"])
def test_nothing_is_left_when_we_die(how: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, how], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT
    ) as holder:
        assert holder.stdout is not None
        pids = [int(pid) for pid in holder.stdout.readline().split()]
        assert len(pids) == 2
        if how != "crash":
            holder.send_signal(getattr(signal, how))
        holder.wait(10)
    assert until_gone(pids) == []
