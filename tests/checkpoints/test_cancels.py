import asyncio
import time

import pytest

from ragflow_lg.checkpoints import open_store
from ragflow_lg.services.sessions import hold_lease
from tests.fakes.python_process import python_process
from tests.stores import OpenStore, fresh_prefix


async def test_a_request_before_or_after_a_run_has_no_effect(reopen: OpenStore) -> None:
    cancellations: list[str] = []
    async with reopen() as store:
        for name, time_s in (("first", 0.7), ("second", 0.3)):
            await store.cancels.request("anna")
            async with (
                hold_lease(store.leases, "anna"),
                store.cancels.watch("anna", lambda name=name: cancellations.append(name)),
            ):
                await asyncio.sleep(time_s)
    assert cancellations == []


REQUESTER = """
import asyncio, sys, time
from ragflow_lg.checkpoints import open_store
from ragflow_lg.adapters.system_services import SystemClock

async def request():
    async with open_store(sys.argv[1], prefix=sys.argv[2]) as store:
        print("ready", flush=True)
        for line in sys.stdin:
            start_s = time.monotonic()
            await store.cancels.request(line.strip())
            print(start_s, flush=True)

asyncio.run(request())
"""


async def test_a_request_of_another_process_arrives_in_time(shared_url: str) -> None:
    prefix = fresh_prefix()
    limit_s = 0.1 if shared_url.startswith("redis") else 0.6
    delays_s: list[float] = []
    with python_process(REQUESTER, shared_url, prefix) as requester:
        assert requester.read_line() == "ready"
        async with open_store(shared_url, prefix=prefix) as store:
            for name in ("anna", "0123456789abcdef0123456789abcdef", "01234567-89ab-cdef-0123-456789abcdef"):
                cancelled: asyncio.Future[float] = asyncio.get_running_loop().create_future()
                async with store.cancels.watch(
                    name, lambda cancelled=cancelled: cancelled.set_result(time.monotonic())
                ):
                    await asyncio.sleep(0.05)
                    requester.write_line(name)
                    async with asyncio.timeout(60):
                        cancelled_at = await cancelled
                delays_s.append(cancelled_at - float(requester.read_line()))
    assert min(delays_s) < limit_s  # the minimum: the machine may be busy with other tests


async def test_a_cancellation_in_a_watch_propagates(reopen: OpenStore) -> None:
    async with reopen() as store:

        async def run() -> None:
            async with store.cancels.watch("anna", lambda: None):
                await asyncio.sleep(60)

        runner = asyncio.create_task(run())
        await asyncio.sleep(0.05)
        runner.cancel()
        with pytest.raises(asyncio.CancelledError):
            await runner
