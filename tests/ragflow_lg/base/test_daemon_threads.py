from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest

from ragflow_lg.base.daemon_threads import DaemonThreads

VARIABLE: ContextVar[str] = ContextVar("VARIABLE", default="none")


async def test_work_runs_in_another_thread_with_the_callers_context() -> None:
    VARIABLE.set("some")
    here = threading.get_ident()
    name, there = await DaemonThreads(2, "t").run(lambda: (VARIABLE.get(), threading.get_ident()))
    assert name == "some"
    assert there != here


async def test_errors_are_raised_to_the_caller() -> None:
    def fail() -> None:
        raise KeyError("x")

    threads = DaemonThreads(1, "t")
    with pytest.raises(KeyError):
        await threads.run(fail)
    assert await threads.run(lambda: 1) == 1


async def test_threads_are_limited_and_cancelled_work_does_not_start() -> None:
    threads, go, started = DaemonThreads(2, "t"), threading.Event(), list[int]()

    def work(number: int) -> None:
        started.append(number)
        go.wait(10)

    running = [asyncio.create_task(threads.run(lambda n=n: work(n))) for n in range(4)]
    while len(started) < 2:
        await asyncio.sleep(0.001)
    running[3].cancel()
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(*running[:3])
    assert sorted(started) == [0, 1, 2]


def test_a_forked_process_starts_its_own_threads() -> None:
    threads = DaemonThreads(1, "t")
    assert asyncio.run(threads.run(lambda: 1)) == 1
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(asyncio.run(asyncio.wait_for(threads.run(lambda: 7), 5)))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_endless_work_does_not_keep_the_process_alive() -> None:
    program = (
        "import asyncio, threading\n"
        "from ragflow_lg.base.daemon_threads import DaemonThreads\n"
        "async def main():\n"
        "    try:\n"
        "        async with asyncio.timeout(0.05):\n"
        "            await DaemonThreads(1, 't').run(threading.Event().wait)\n"
        "    except TimeoutError:\n"
        "        print('timed out')\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout == "timed out\n"
