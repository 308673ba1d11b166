"""Steps that are stored together: when they are written, and what a failure or a crash leaves of them."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import uvloop
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from ragflow_lg.base.errors import CheckpointError, SessionBusyError
from ragflow_lg.checkpoints import Store
from ragflow_lg.checkpoints.memory.memory_store import MemoryBlobs, MemorySaver, memory_store
from ragflow_lg.checkpoints.steps import step_buffer
from ragflow_lg.checkpoints.steps.result_buffer import TaskWrites
from ragflow_lg.checkpoints.steps.saver import CanvasSaver
from ragflow_lg.checkpoints.steps.saver_operations import CheckpointKey
from ragflow_lg.checkpoints.steps.step_buffer import Part, StepBuffer
from ragflow_lg.services.sessions import hold_lease, with_lease_token
from tests.stores import OpenStore, checkpoint_config, checkpoint_id, put_checkpoint

PATH = "~__pregel_pull, n"
SESSION = "2008f08656b85bc387c067f8d815f4fe"
THREAD = "2008f086-56b8-5bc3-87c0-67f8d815f4fe"


def _task(number: int) -> str:
    """Return the id of a task. Stores sort results by these ids, which must be the order of the numbers."""
    return f"task-{number:04}"


def _result(config: Any, number: int) -> TaskWrites:
    return TaskWrites(config, [("outputs", {"n": {"result": number}})], _task(number), PATH)


async def _stored(store: Store) -> list[tuple[int, list[int]]]:
    """Return the number in each stored checkpoint, oldest first, with the numbers in its results."""
    inner: Any = store.saver.inner
    keys: list[CheckpointKey] = [key async for key in inner.list_keys(THREAD)]
    found: list[tuple[int, list[int]]] = []
    for key in reversed(keys):
        stored = await store.saver.aget_tuple(checkpoint_config(*key))
        assert stored is not None
        results = [value["n"]["result"] for _, _, value in stored.pending_writes or ()]
        found.append((stored.checkpoint["channel_values"]["outputs"]["n"], results))
    return found


class Recorder:
    """Records what is written, and lets each write wait until it may end."""

    def __init__(self) -> None:
        self.written: list[list[Part]] = []
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.error: Exception | None = None
        self.is_closed = False
        self.steps = StepBuffer(self.write, self._close, lambda _: None)

    async def write(self, parts: Sequence[Part]) -> None:
        """Record parts."""
        await self.may_end.wait()
        if self.error is not None:
            raise self.error
        self.written.append(list(parts))

    def _close(self) -> None:
        self.is_closed = True

    @property
    def counts(self) -> list[int]:
        """The number of parts in each write."""
        return [len(parts) for parts in self.written]


@pytest.fixture
async def recorder(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Recorder]:
    monkeypatch.setattr(step_buffer, "LATEST_S", 30.0)
    recorder = Recorder()
    yield recorder
    recorder.steps.drop()


async def _add(recorder: Recorder, *numbers: int) -> None:
    for number in numbers:
        if not recorder.steps.take_writes(*_result(checkpoint_config("t"), number)):
            await recorder.steps.flush()


async def test_steps_wait_until_they_are_needed(recorder: Recorder) -> None:
    await _add(recorder, 1, 2, 3)
    await asyncio.sleep(0.02)
    assert recorder.counts == []
    await recorder.steps.settle()
    await recorder.steps.settle()
    assert recorder.counts == [3]
    await _add(recorder, 4)
    await recorder.steps.close()
    assert (recorder.counts, recorder.is_closed) == ([3, 1], True)


async def test_steps_in_memory_wait_for_a_reader_or_the_end(recorder: Recorder) -> None:
    steps = recorder.steps = StepBuffer(recorder.write, lambda: None, lambda _: None, is_volatile=True)
    steps.hurry(_task(1))
    steps.require(f"n:{_task(1)}")
    await _add(recorder, 1)
    assert steps.take_checkpoint(checkpoint_config(THREAD), {"id": "1"}, {}, {})  # pyright: ignore[reportArgumentType]
    await steps.settle()
    await asyncio.sleep(0.02)
    assert recorder.counts == []
    await steps.flush()
    assert recorder.counts == [2]
    await _add(recorder, 2)
    await steps.close()
    assert recorder.counts == [2, 1]


async def test_the_result_of_an_effect_is_stored_soon(recorder: Recorder) -> None:
    recorder.steps.hurry(f"loop:{_task(0)}|n:{_task(2)}")
    await _add(recorder, 1)
    await asyncio.sleep(0.02)
    assert recorder.counts == []
    await _add(recorder, 2)
    await asyncio.sleep(0.1)
    assert recorder.counts == [2]


async def test_what_the_user_has_not_seen_is_stored_before_it_is_shown(recorder: Recorder) -> None:
    await _add(recorder, 1)
    recorder.steps.hurry(f"n:{_task(2)}", is_shown=True)
    await _add(recorder, 2)
    await recorder.steps.settle_hidden()
    assert recorder.counts == []
    recorder.steps.hurry(f"n:{_task(3)}")
    await _add(recorder, 3, 4)
    recorder.may_end.clear()
    reader = asyncio.create_task(recorder.steps.settle_hidden())
    await asyncio.sleep(0.02)
    assert not reader.done()
    recorder.may_end.set()
    await reader
    await _add(recorder, 5)
    await recorder.steps.settle_hidden()
    assert recorder.counts == [4]


async def test_steps_are_stored_after_a_while(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_buffer, "LATEST_S", 0.01)
    await _add(recorder, 1)
    await asyncio.sleep(0.1)
    assert recorder.counts == [1]


def test_steps_are_stored_by_a_loop_that_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A timer of uvloop whose time has come already has no time."""
    monkeypatch.setattr(step_buffer, "LATEST_S", 0.0)

    async def store_steps() -> None:
        recorder = Recorder()
        await _add(recorder, 1, 2, 3)
        await recorder.steps.close()
        assert recorder.counts == [3]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(store_steps())


async def test_what_is_added_during_a_write_is_not_awaited_by_an_earlier_reader(recorder: Recorder) -> None:
    recorder.may_end.clear()
    await _add(recorder, 1)
    reader = asyncio.create_task(recorder.steps.settle())
    await asyncio.sleep(0)
    await _add(recorder, 2)
    recorder.may_end.set()
    await reader
    assert recorder.counts == [1]
    await recorder.steps.settle()
    assert recorder.counts == [1, 1]


async def test_a_slow_store_slows_down_the_steps(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_buffer, "MAX_PARTS", 2)
    recorder.may_end.clear()
    await _add(recorder, 1, 2, 3)
    waiting = asyncio.create_task(_add(recorder, 4))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    recorder.may_end.set()
    await waiting
    assert recorder.counts == [2, 2]


async def test_a_cancelled_reader_does_not_stop_a_write(recorder: Recorder) -> None:
    recorder.may_end.clear()
    await _add(recorder, 1)
    reader = asyncio.create_task(recorder.steps.settle())
    await asyncio.sleep(0)
    reader.cancel()
    await asyncio.wait([reader])
    recorder.may_end.set()
    await recorder.steps.settle()
    assert recorder.counts == [1]


async def test_after_a_failed_write_nothing_more_is_stored(recorder: Recorder) -> None:
    recorder.error = CheckpointError("disk full")
    await _add(recorder, 1)
    for call in (recorder.steps.settle(), _add(recorder, 2), recorder.steps.close()):
        with pytest.raises(CheckpointError, match="disk full"):
            await call
    assert (recorder.counts, recorder.is_closed) == ([], True)


async def test_a_required_step_is_stored_before_the_next(reopen_shared: OpenStore) -> None:
    async with reopen_shared() as store, hold_lease(store.leases, SESSION) as token:
        config = with_lease_token(checkpoint_config(THREAD), token)
        steps = store.saver.gather(config)
        steps.require(f"n:{_task(1)}")
        place = await put_checkpoint(store.saver, config, {"outputs": {"n": 1}})
        async with reopen_shared() as other:
            assert await _stored(other) == [(1, [])]
        await put_checkpoint(store.saver, with_lease_token(place, token), {"outputs": {"n": 2}})
        assert [number async for number in store.saver.list_keys(THREAD, limit=1)]  # a reader stores the rest
        async with reopen_shared() as other:
            assert await _stored(other) == [(1, []), (2, [])]
        await steps.close()


async def test_results_of_one_checkpoint_are_stored_in_one_transaction(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reopen() as store, hold_lease(store.leases, SESSION) as token:
        config = with_lease_token(checkpoint_config(THREAD), token)
        place = with_lease_token(await put_checkpoint(store.saver, config, {"outputs": {"n": 1}}), token)
        steps = store.saver.gather(place)
        begun: list[Any] = []
        begin = store.saver.values.transaction

        def count(precondition: Any) -> Any:
            begun.append(precondition)
            return begin(precondition)

        monkeypatch.setattr(store.saver.values, "transaction", count)
        for number in range(3):
            await store.saver.aput_writes(*_result(place, number))
        await steps.close()
        assert len(begun) == 1
        async with reopen() as other:
            assert await _stored(other) == [(1, [0, 1, 2])]


async def test_a_run_that_has_lost_its_lease_stores_nothing(reopen: OpenStore) -> None:
    async with reopen() as store:
        async with hold_lease(store.leases, SESSION) as token:
            config = with_lease_token(checkpoint_config(THREAD), token)
            steps = store.saver.gather(config)
            await put_checkpoint(store.saver, config, {"outputs": {"n": 1}})
        async with hold_lease(store.leases, SESSION) as later:
            newer = store.saver.gather(with_lease_token(checkpoint_config(THREAD), later))
            if store.saver.values.transaction.__name__ != "_no_transaction":  # in memory, nothing is lost
                with pytest.raises(SessionBusyError):
                    await steps.close()
                assert await _stored(store) == []
            await newer.close()


class GatheringSaver(RuleBasedStateMachine):
    """A run whose steps are gathered, while writes fail and processes die; the model is the list of what was added.

    Whatever happens, what is stored is the beginning of what was added, and contains all that was said to be stored.
    """

    def __init__(self) -> None:
        super().__init__()
        self.patches = pytest.MonkeyPatch()
        for name in ("SOON_S", "LATEST_S"):  # `end_timer` takes the place of time
            self.patches.setattr(step_buffer, name, 3600.0)
        self.loop = asyncio.new_event_loop()
        blobs = MemoryBlobs()
        self.store = replace(memory_store(), saver=CanvasSaver(MemorySaver(blobs), blobs))  # as if it were lasting
        inner: Any = self.store.saver.inner
        self.put, self.put_writes = inner.aput, inner.aput_writes
        inner.aput, inner.aput_writes = self._failing(inner.aput), self._failing(inner.aput_writes)
        self.calls_until_failure = self.failures = 0
        self.added: list[tuple[str, int]] = []
        self.safe = 0
        self.number = 0
        self.loop.run_until_complete(put_checkpoint(self.store.saver, checkpoint_config(THREAD), {"outputs": {"n": 0}}))
        self._open()

    def _failing(self, function: Any) -> Any:
        async def call(*arguments: Any) -> Any:
            await asyncio.sleep(0)
            if self.failures:
                self.calls_until_failure -= 1
                if self.calls_until_failure < 0:
                    self.failures -= 1
                    raise CheckpointError("disk full")
            return await function(*arguments)

        return call

    def _open(self) -> None:
        """Begin a run, as after a crash, with what is stored."""
        self.token = self.loop.run_until_complete(self._take_lease())
        self.config = with_lease_token(checkpoint_config(THREAD), self.token)
        self.steps = self.store.saver.gather(self.config)
        self.added = self._read()
        self.safe = len(self.added)
        newest = self.loop.run_until_complete(self._newest())
        self.place = with_lease_token(checkpoint_config(THREAD, "", newest), self.token)

    async def _take_lease(self) -> int:
        async with hold_lease(self.store.leases, SESSION) as token:
            return token

    async def _newest(self) -> str:
        inner: Any = self.store.saver.inner
        return await anext(key.checkpoint async for key in inner.list_keys(THREAD, limit=1))

    def _read(self) -> list[tuple[str, int]]:
        parts: list[tuple[str, int]] = []
        for number, results in self.loop.run_until_complete(self._stored()):
            parts += [("checkpoint", number), *(("result", result) for result in results)]
        return parts

    async def _stored(self) -> list[tuple[int, list[int]]]:
        saver: Any = self.store.saver
        runs, saver._steps = saver._steps, {}  # a reader would store them
        try:
            return await _stored(self.store)
        finally:
            saver._steps = runs

    def _do(self, call: Any) -> bool:
        """Return whether a call succeeds. After a failure, another run continues."""
        try:
            self.loop.run_until_complete(call)
        except CheckpointError:
            self.failures = 0
            self._check_prefix()
            self._open()
            return False
        return True

    def _check_prefix(self) -> None:
        stored = self._read()
        assert stored == self.added[: len(stored)]
        assert len(stored) >= self.safe

    def _idle(self) -> None:
        """Let a write end that is running."""

        async def idle() -> None:
            for _ in range(200):
                await asyncio.sleep(0)

        self.loop.run_until_complete(idle())

    @rule()
    def put_checkpoint(self) -> None:
        self.number += 1
        self.added.append(("checkpoint", self.number))

        async def put() -> None:
            place = await put_checkpoint(self.store.saver, self.place, {"outputs": {"n": self.number}})
            self.place = with_lease_token(place, self.token)

        self._do(put())

    @rule(is_effect=st.booleans())
    def put_result(self, is_effect: bool) -> None:
        self.number += 1
        self.added.append(("result", self.number))
        if is_effect:
            self.steps.hurry(f"n:{_task(self.number)}")
        self._do(self.store.saver.aput_writes(*_result(self.place, self.number)))

    @rule()
    def settle(self) -> None:
        count = len(self.added)
        if self._do(self.steps.settle()):
            self.safe = count
            assert len(self._read()) == count

    @rule()
    def read(self) -> None:
        count = len(self.added)
        self.loop.run_until_complete(self.store.saver.aget_tuple(checkpoint_config(THREAD)))
        steps: Any = self.steps
        if steps._error is None:
            assert len(self._read()) == count
            self.safe = count

    @rule(switches=st.integers(1, 8))
    def end_timer(self, switches: int) -> None:
        """Begin a write, and let other work go on while it runs."""

        async def write() -> None:
            steps: Any = self.steps
            steps._start()
            for _ in range(switches):
                await asyncio.sleep(0)

        self.loop.run_until_complete(write())

    @rule(calls=st.integers(0, 6), failures=st.integers(1, 8))
    def break_store(self, calls: int, failures: int) -> None:
        self.calls_until_failure, self.failures = calls, failures

    @rule()
    def crash(self) -> None:
        self.steps.drop()
        self._idle()
        self.failures = 0
        self._check_prefix()
        self._open()

    @invariant()
    def what_is_stored_is_the_beginning(self) -> None:
        self._check_prefix()

    def teardown(self) -> None:
        self.steps.drop()
        self._idle()
        self.loop.close()
        self.patches.undo()


TestGatheringSaver = GatheringSaver.TestCase
TestGatheringSaver.settings = settings(
    max_examples=int(os.environ.get("EXAMPLES", "25")),  # python -m tests.campaigns properties 1000 tries more
    stateful_step_count=25,
    deadline=None,
    derandomize="EXAMPLES" not in os.environ,
)


def test_the_ids_of_checkpoints_grow() -> None:
    """The machine reads checkpoints in the order of their ids."""

    async def put_two() -> list[str]:
        saver = memory_store().saver
        return [checkpoint_id(await put_checkpoint(saver, checkpoint_config("t"), {"a": n})) for n in range(2)]

    first, second = asyncio.run(put_two())
    assert first < second
