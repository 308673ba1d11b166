import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.workers import worker_process
from ragflow_lg.adapters.workers.worker_main import NICE
from ragflow_lg.adapters.workers.worker_pool import WorkerPool
from ragflow_lg.base.errors import ComponentError, ServiceError, WorkLimitError
from ragflow_lg.base.worker_tasks import WorkerTask
from tests.fakes import worker_tasks as tasks

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="Windows has no rlimits")]


@pytest.fixture
async def pool() -> AsyncGenerator[WorkerPool]:
    pool = WorkerPool(size=2, memory_bytes=512 * 1024**2)
    yield pool
    await pool.aclose()


async def test_small_arguments_stay_in_this_process_and_large_ones_do_not(pool: WorkerPool) -> None:
    assert await pool.run(tasks.process_id_of, "a" * 1000) == os.getpid()
    assert await pool.run(tasks.process_id_of, "a" * 20_000) != os.getpid()
    assert await pool.run(tasks.process_id) == await pool.run(tasks.process_id), "it is used again"
    with pytest.raises(ComponentError, match="exceeds the limit"):
        await pool.run(tasks.repeat, "a" * 100_000, times=1000)


async def test_arguments_and_results_of_any_characters_arrive(pool: WorkerPool) -> None:
    text = "ü\0\n\U0001f600" * 10_000
    assert await pool.run(tasks.repeat, text, times=2) == text * 2
    assert await pool.run(tasks.repeat, "\ud83d" * 20_000) == "\ufffd" * 20_000  # as in every stored value
    with pytest.raises(ServiceError, match="\ufffd"):
        await pool.run(tasks.fail, "\ud83d")


@pytest.mark.parametrize(
    ("task", "arguments", "message"),
    [
        (tasks.sleep, (60,), "Sleeping did not finish within 0.3 s and was stopped."),
        (tasks.search, (), "Searching did not finish within 1 s"),
        (tasks.fill, (2 * 1024**3,), "Filling needs more than 512 MiB of memory and was stopped."),
        (tasks.abort, (), "Aborting ended its worker process, probably because it needs more than 512 MiB of memory."),
        (tasks.crash, (), "Crashing ended its worker process with status -11."),
    ],
)
async def test_a_task_that_exceeds_a_limit_ends_and_the_next_one_runs(
    pool: WorkerPool, task: WorkerTask[..., Any], arguments: tuple[Any, ...], message: str
) -> None:
    begin = time.monotonic()
    with pytest.raises(WorkLimitError, match=message):
        await pool.run(task, *arguments)

    assert time.monotonic() - begin < 20
    assert await pool.run(tasks.process_id) > 0


async def test_a_task_has_more_time_while_others_keep_the_processor_from_it(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pool.run(tasks.process_id)  # starting a process also takes time
    monkeypatch.setattr(tasks.sleep_long, "seconds", 0.5)
    await pool.run(tasks.sleep_long, 0.6)  # it uses no processor time
    with pytest.raises(WorkLimitError):
        await pool.run(tasks.sleep_long, 20)


async def test_errors_of_tasks_arrive(pool: WorkerPool) -> None:
    with pytest.raises(ComponentError, match=r"^It is wrong\.$"):
        await pool.run(tasks.fail, "component")
    with pytest.raises(ServiceError, match="It is not a size"):
        await pool.run(tasks.fail, "answer")
    with pytest.raises(ServiceError, match=r"^Failing failed: ZeroDivisionError: x\.$"):
        await pool.run(tasks.fail, "x")


async def test_what_a_library_prints_does_not_disturb_and_secrets_are_not_inherited(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    assert await pool.run(tasks.print_text, "noise" * 1000) == ""


async def test_cancelling_kills_the_worker(pool: WorkerPool) -> None:
    await pool.start()
    waiting = asyncio.create_task(pool.run(tasks.sleep_long, 25))
    await asyncio.sleep(0.2)
    begin = time.monotonic()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert time.monotonic() - begin < 15
    assert {await pool.run(tasks.process_id) for _ in range(3)}


@pytest.mark.parametrize("dies", [False, True])
async def test_a_program_of_a_worker_ends_with_it(pool: WorkerPool, tmp_path: Path, *, dies: bool) -> None:
    report = tmp_path / "pid"
    waiting = asyncio.create_task(pool.run(tasks.wait_for_program, str(report), dies=dies))
    async with asyncio.timeout(20):
        while not (report.exists() and report.read_text()):
            await asyncio.sleep(0.01)
        if not dies:
            waiting.cancel()
        await asyncio.wait([waiting])
        while is_running(int(report.read_text())):
            await asyncio.sleep(0.01)


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="others compare the priorities of all processes")
async def test_a_worker_has_its_own_process_group_in_the_same_session(pool: WorkerPool) -> None:
    worker = await pool.run(tasks.process_id)
    assert os.getpriority(os.PRIO_PROCESS, worker) == min(os.getpriority(os.PRIO_PROCESS, 0) + NICE, 19)
    assert os.getsid(worker) == os.getsid(0)
    assert os.getpgid(worker) == worker


async def test_too_many_waiting_tasks_are_refused() -> None:
    pool = WorkerPool(size=1, max_waiting=3)
    crowd = [asyncio.create_task(pool.run(tasks.sleep_long, 20)) for _ in range(4)]
    await asyncio.sleep(0)
    with pytest.raises(WorkLimitError, match="3 tasks are already waiting for a worker process") as caught:
        await pool.run(tasks.process_id)

    assert caught.value.is_retryable
    for task in crowd:
        task.cancel()
    await asyncio.gather(*crowd, return_exceptions=True)
    await pool.aclose()


async def test_a_process_that_has_started_ends_if_its_caller_is_cancelled_before_its_next_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody else knows of the process yet."""
    create, processes = asyncio.create_subprocess_exec, list[asyncio.subprocess.Process]()

    async def create_then_cancel(*args: Any, **options: Any) -> asyncio.subprocess.Process:
        processes.append(await create(*args, **options))
        asyncio.get_running_loop().call_soon(starting.cancel)
        return processes[0]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", create_then_cancel)
    starting = asyncio.create_task(worker_process.WorkerProcess.start(512 * 1024**2))
    await asyncio.wait([starting])
    assert starting.cancelled()
    ended, _ = await asyncio.wait([asyncio.create_task(processes[0].wait())], timeout=10)
    if not ended:
        processes[0].kill()
    assert ended


async def test_long_tasks_take_no_process_from_others(pool: WorkerPool) -> None:
    sleep = tasks.sleep_long
    long = WorkerTask(sleep.function, sleep.activity, sleep.seconds, 0, is_long=True)
    crowd = [asyncio.create_task(pool.run(long, 20)) for _ in range(5)]
    await asyncio.sleep(0)

    async with asyncio.timeout(10):
        assert await pool.run(tasks.process_id) > 0
    assert not any(task.done() for task in crowd)

    for task in crowd:
        task.cancel()
    await asyncio.gather(*crowd, return_exceptions=True)
