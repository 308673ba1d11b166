import asyncio
import time

from ragflow_lg.server.observability.pace import MAX_PAUSE_S, Pace


async def test_a_few_runs_begin_at_once_and_the_others_in_order() -> None:
    pace, begun = Pace(2, interval_s=0.05, max_lag_s=10), list[int]()

    async def begin(number: int) -> None:
        await pace.wait()
        begun.append(number)

    tasks = [asyncio.create_task(begin(number)) for number in range(7)]
    await asyncio.sleep(0)
    assert (begun, pace.queue_length) == ([0, 1], 5)
    await asyncio.sleep(0.07)
    assert begun == [0, 1, 2, 3]
    await asyncio.gather(*tasks)
    assert begun == list(range(7))
    await asyncio.sleep(0.1)
    await asyncio.gather(begin(7), begin(8))
    assert begun[-2:] == [7, 8]


async def test_a_busy_process_begins_runs_slowly_but_goes_on() -> None:
    pace, is_busy = Pace(4, max_lag_s=0.001), True

    async def work() -> None:
        while is_busy:
            time.sleep(0.03)  # stands for the work of other runs
            await asyncio.sleep(0)

    busy = asyncio.create_task(work())
    start_s = time.monotonic()
    await asyncio.gather(*(pace.wait() for _ in range(7)))
    elapsed_s = time.monotonic() - start_s
    is_busy = False
    await busy
    assert 2 * MAX_PAUSE_S < elapsed_s < 10


async def test_a_cancelled_run_leaves_the_queue() -> None:
    pace = Pace(1, interval_s=0.05, max_lag_s=10)
    await pace.wait()
    tasks = [asyncio.create_task(pace.wait()) for _ in range(2)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    await asyncio.wait([tasks[0]])
    assert pace.queue_length == 1
    await tasks[1]
