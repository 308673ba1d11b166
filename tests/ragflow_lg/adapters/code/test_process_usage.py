"""What is measured of the process of a sandbox."""

import asyncio
import subprocess
import sys

import pytest

from ragflow_lg.adapters.code.code_settings import CodeLimits
from ragflow_lg.adapters.code.deno import UsageWatch, read_proc, read_ps

pytestmark = pytest.mark.slow

BUSY = "x = bytearray(50_000_000); print(flush=True)\nimport time\nwhile time.process_time() < 30: pass"
GROWING = """
first = bytearray(50_000_000)
print(flush=True)
input()
second = bytearray(60_000_000)
print(flush=True)
input()
"""


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
    with subprocess.Popen(
        [sys.executable, "-c", GROWING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdout.readline()
        assert await watch.find_excess(program.pid, limits) is None
        assert await watch.find_excess(program.pid, limits) is None
        program.stdin.write(b"grow\n")
        program.stdout.readline()
        assert await watch.find_excess(program.pid, limits) == "memory_bytes"
        program.kill()


async def test_a_process_that_has_ended_uses_nothing() -> None:
    assert await UsageWatch().find_excess(2**22 - 1, CodeLimits()) is None
    assert (await read_ps(2**22 - 1)).memory_bytes == 0
