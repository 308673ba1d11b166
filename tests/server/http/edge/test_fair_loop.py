"""An event loop in which tenants take turns."""

import asyncio
import time

import pytest
import uvloop

from ragflow_lg.adapters.workers.worker_pool import WorkerPool
from ragflow_lg.base.request_notes import RequestNotes, find_tenant, use_notes
from ragflow_lg.base.shared_resources import undelayed
from ragflow_lg.server.http.edge.fair_calls import PRESENT_S, Call, FairCalls
from ragflow_lg.server.http.edge.fair_loop import make_fair_loop
from tests.fakes.worker_tasks import process_id

BASES: tuple[type[asyncio.AbstractEventLoop], ...] = (asyncio.SelectorEventLoop, uvloop.Loop)


@pytest.fixture(params=BASES)
def runner(request: pytest.FixtureRequest):
    with asyncio.Runner(loop_factory=lambda: make_fair_loop(request.param, find_tenant)) as runner:
        yield runner


async def _work(steps: int, work_s: float = 0.0) -> float:
    """Run some steps; return when the last one has ended."""
    for _ in range(steps):
        until = time.perf_counter() + work_s
        while time.perf_counter() < until:
            pass
        await asyncio.sleep(0)
    return time.perf_counter()


def _start(tenant: str, steps: int, work_s: float = 0.0) -> asyncio.Task[float]:
    with use_notes(RequestNotes(tenant=tenant)):
        return asyncio.create_task(_work(steps, work_s))


def test_a_tenant_does_not_wait_for_all_tasks_of_another(runner: asyncio.Runner):
    async def main() -> tuple[float, float]:
        began = time.perf_counter()
        busy = [_start("busy", 20, 0.001) for _ in range(50)]
        quiet = await _start("quiet", 20)
        return quiet - began, max(await asyncio.gather(*busy)) - began

    quiet_s, busy_s = runner.run(main())
    assert busy_s > 1
    assert quiet_s < busy_s / 5


def test_work_without_a_tenant_does_not_wait(runner: asyncio.Runner):
    async def main() -> tuple[float, float]:
        began = time.perf_counter()
        busy = [_start("busy", 20, 0.001) for _ in range(50)]
        own = await _work(20)
        return own - began, max(await asyncio.gather(*busy)) - began

    own_s, busy_s = runner.run(main())
    assert own_s < busy_s / 5


def test_tasks_of_a_tenant_keep_their_order(runner: asyncio.Runner):
    seen: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with use_notes(RequestNotes(tenant="a")):
            for number in range(100):
                loop.call_soon(seen.append, number)
            await asyncio.sleep(0)

    runner.run(main())
    assert seen == list(range(100))


def test_a_cancelled_call_does_not_run(runner: asyncio.Runner):
    seen: list[int] = []

    async def main() -> None:
        with use_notes(RequestNotes(tenant="a")):
            asyncio.get_running_loop().call_soon(seen.append, 1).cancel()
            await asyncio.sleep(0.01)

    runner.run(main())
    assert seen == []


def test_a_call_that_fails_is_reported_and_others_go_on(runner: asyncio.Runner):
    failures: list[object] = []

    def fail() -> None:
        raise ValueError("broken")

    async def main() -> float:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
        with use_notes(RequestNotes(tenant="a")):
            loop.call_soon(fail)
        return await _start("a", 3)

    assert runner.run(main())
    assert [str(failure) for failure in failures] == ["broken"]


def test_tasks_that_are_cancelled_end(runner: asyncio.Runner):
    async def main() -> bool:
        task = _start("a", 1_000_000)
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task], timeout=5)
        return task.cancelled()

    assert runner.run(main())


def test_a_holder_of_a_shared_lock_does_not_wait_for_its_turn(runner: asyncio.Runner):
    lock = asyncio.Lock()

    async def hold() -> None:
        async with undelayed(), lock:
            await asyncio.sleep(0)

    async def main() -> tuple[float, float]:
        began = time.perf_counter()
        busy = [_start("busy", 20, 0.001) for _ in range(50)]
        with use_notes(RequestNotes(tenant="busy")):
            holders = [asyncio.create_task(hold()) for _ in range(20)]
        with use_notes(RequestNotes(tenant="quiet")):
            await asyncio.create_task(hold())
        quiet = time.perf_counter()
        await asyncio.gather(*holders)
        return quiet - began, max(await asyncio.gather(*busy)) - began

    quiet_s, busy_s = runner.run(main())
    assert quiet_s < busy_s / 3


def test_results_of_a_worker_are_not_received_in_the_turns_of_the_tenant_that_started_it(
    runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
):
    tenants, add = list[str](), FairCalls.add

    def note(calls: FairCalls, tenant: str, call: Call) -> None:
        tenants.append(tenant)
        add(calls, tenant, call)

    async def main() -> None:
        monkeypatch.setattr(FairCalls, "add", note)
        pool = WorkerPool(1)
        for tenant in ("first", "second"):
            tenants.clear()
            with use_notes(RequestNotes(tenant=tenant)):
                await asyncio.create_task(pool.run(process_id))
        assert set(tenants) == {"second"}
        await pool.aclose()

    runner.run(main())


@pytest.mark.parametrize(("work_s", "least_s"), [(0.001, 0.001), (0.05, 0.2)])
def test_a_tenant_waits_after_long_work_in_a_thread(runner: asyncio.Runner, work_s: float, least_s: float) -> None:
    def compute() -> None:
        until_s = time.thread_time() + work_s
        while time.thread_time() < until_s:
            pass

    async def compute_then_wait() -> float:
        began_s = time.perf_counter()
        await asyncio.to_thread(compute)
        return time.perf_counter() - began_s

    async def main() -> float:
        with use_notes(RequestNotes(tenant="other")):
            other = asyncio.create_task(_rest_forever())
        with use_notes(RequestNotes(tenant="large")):
            waited_s = await asyncio.create_task(compute_then_wait())
        other.cancel()
        return waited_s

    assert least_s <= runner.run(main()) < 3


async def _rest_forever() -> None:
    while True:
        await asyncio.sleep(0.001)


def test_a_tenant_that_has_used_its_share_goes_on_without_new_calls(runner: asyncio.Runner):
    async def main() -> tuple[float, float]:
        began = time.perf_counter()
        busy = _start("busy", 500, 0.001)
        while not busy.done():
            await _start("quiet", 1)
            await asyncio.sleep(PRESENT_S / 2)
        return (await busy) - began, time.perf_counter() - began

    busy_s, whole_s = runner.run(main())
    assert 0.7 < busy_s <= whole_s < 10
