"""What is measured of the process of a sandbox."""

import asyncio
import os
import subprocess
import sys

import pytest

from ragflow_lg.adapters.code.code_limits import CodeLimits
from ragflow_lg.adapters.code.process_usage import UsageWatch, read_proc, read_ps

BUSY = "x = bytearray(50_000_000); print(flush=True)\nimport time\nwhile time.process_time() < 30: pass"


@pytest.mark.skipif(sys.platform != "linux", reason="compares with Linux's /proc")
async def test_both_ways_to_measure_agree() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        await asyncio.sleep(1.2)
        here, elsewhere = read_proc(program.pid), await read_ps(program.pid)
        program.kill()
    assert 50_000_000 < here.memory_bytes <= elsewhere.memory_bytes < 150_000_000
    assert abs(here.cpu_s - elsewhere.cpu_s) < 1.5
    assert here.threads == 1


async def test_only_what_is_used_since_the_start_counts() -> None:
    watch, limits = UsageWatch(), CodeLimits(memory_bytes=30_000_000, cpu_s=10)
    assert await watch.find_excess(os.getpid(), limits) is None
    assert await watch.find_excess(os.getpid(), limits) is None
    block = bytearray(os.urandom(1024)) * 60_000
    assert await watch.find_excess(os.getpid(), limits) == "memory_bytes"
    assert len(block) > 0


async def test_a_process_that_has_ended_uses_nothing() -> None:
    assert await UsageWatch().find_excess(2**22 - 1, CodeLimits()) is None
    assert (await read_ps(2**22 - 1)).memory_bytes == 0
