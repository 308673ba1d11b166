import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import CheckpointError, SessionBusyError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints import Store, open_store
from ragflow_lg.checkpoints.sessions.session_pruning import Pruned, PruneLimits, prune_session
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from ragflow_lg.services.sessions import hold_lease
from tests.fakes.canvas import CATALOG, canvas, node
from tests.fakes.regions import form, loop, out
from tests.fakes.services import fake_services
from tests.stores import OpenStore, fresh_prefix, redis_client, redis_keys

ECHO = {**loop({"in": node("Message", {"content": "round"})}), **out("{sys.query}")}
"""Each turn stores checkpoints of the canvas and of its Loop, and parts for the question."""
ASK = {"ask": form("size", downstream=["out"]), **out("Size {ask@size}")}


def runner_on(store: Store, components: dict[str, Any]) -> Runner:
    return Runner(compile_canvas(canvas(components), CATALOG), fake_services(), store=store)


async def play(runner: Runner, *queries: str) -> str:
    answer = ""
    for query in queries:
        run = runner.start("anna", {"query": query})
        async for _ in run:
            pass
        answer = run.answer
    return answer


def question(number: int) -> str:
    return f"question {number} " + chr(ord("a") + number) * 3000


async def stored(store: Store) -> tuple[int, set[str], list[str]]:
    """Return the number of checkpoints, the names of parts, and the runs, newest first."""
    thread = str(thread_of_session("anna"))
    checkpoints = [key async for key in store.saver.list_keys(thread)]
    records = [record.run_id async for record in store.runs.of_session("anna")]
    return len(checkpoints), {*await store.saver.tables.blob_names(thread)}, records


async def test_the_last_turns_are_kept_and_the_conversation_goes_on(reopen: OpenStore) -> None:
    async with reopen() as store:
        runner = runner_on(store, ECHO)
        await play(runner, *(question(number) for number in range(8)))
        before = await stored(store)
        planned = await prune_session(store, "anna", PruneLimits(2), is_dry_run=True)
        assert await stored(store) == before
        freed = await prune_session(store, "anna", PruneLimits(2))
        assert freed == planned
        after = await stored(store)
        assert freed.checkpoints == before[0] - after[0] == before[0] * 6 // 8
        assert freed.runs == 6
        assert after[2] == before[2][:2]
        assert freed.parts == len(before[1] - after[1]) > 6
        assert freed.bytes > 6 * 3000
        assert await prune_session(store, "anna", PruneLimits(2)) == Pruned()
        history = (await runner.state("anna"))["history"]
        assert [payload for role, payload in history if role == "user"] == [question(number) for number in range(8)]
    async with reopen() as store:  # by another process
        assert (await play(runner_on(store, ECHO), question(8))).endswith(question(8))
        history = (await runner_on(store, ECHO).state("anna"))["history"]
        assert len([role for role, _ in history if role == "user"]) == 9


async def test_a_process_that_knows_deleted_parts_stores_them_again(reopen_shared: OpenStore) -> None:
    async with reopen_shared() as here, reopen_shared() as there:
        runner = runner_on(here, ECHO)
        await play(runner, question(0), question(1), question(2))
        await prune_session(there, "anna", PruneLimits(1))
        assert (await play(runner, question(0))).endswith(question(0))
        state = await runner_on(there, ECHO).state("anna")
        assert state["globals"]["sys.query"] == question(0)


async def test_an_open_form_and_its_steps_are_kept(reopen: OpenStore) -> None:
    async with reopen() as store:
        runner = runner_on(store, ASK)
        await play(runner, question(0))
        for number in range(3):
            run = runner.resume("anna", {"size": str(number)})
            async for _ in run:
                pass
            await play(runner, question(number))
        place: Any = {"configurable": {"thread_id": thread_of_session("anna")}}
        await store.saver.steps(place).put("0" * 32, {"done": "x" * 2000})
        assert (await prune_session(store, "anna", PruneLimits(1))).checkpoints > 0
        assert await store.saver.steps(place).find("0" * 32) == (True, {"done": "x" * 2000})
        assert [pause.node for pause in await runner.pauses("anna")] == ["ask"]
        run = runner.resume("anna", {"size": "9"})
        async for _ in run:
            pass
        assert run.answer == "Size 9"
        await prune_session(store, "anna", PruneLimits(1))
        assert await store.saver.steps(place).find("0" * 32) == (False, None), "the turn has ended"


async def test_recent_turns_are_kept(reopen: OpenStore) -> None:
    async with reopen() as store:
        runner = runner_on(store, ECHO)
        await play(runner, question(0), question(1))
        now_ms = int(SystemClock().now() * 1000)
        assert await prune_session(store, "anna", PruneLimits(since_ms=now_ms - 60_000)) == Pruned()
        assert (await prune_session(store, "anna", PruneLimits(since_ms=now_ms + 60_000))).runs == 1
        assert len((await stored(store))[2]) == 1


async def test_a_session_without_turns_is_left_alone(reopen: OpenStore) -> None:
    async with reopen() as store:
        assert await prune_session(store, "nobody", PruneLimits(1)) == Pruned()


async def test_a_lost_lease_stops_the_deletion(reopen_shared: OpenStore) -> None:
    async with reopen_shared() as store:
        await play(runner_on(store, ECHO), question(0), question(1))
        before = await stored(store)
        thread = str(thread_of_session("anna"))
        keys = [key async for key in store.saver.list_keys(thread)]
        async with hold_lease(store.leases, "anna") as token:
            for erasing in (
                store.saver.erase(keys, token - 1),
                store.saver.values.erase_blobs(thread, sorted(before[1]), token - 1),
            ):
                with pytest.raises(SessionBusyError):
                    await erasing
        assert await stored(store) == before


@pytest.mark.parametrize("steps", [1, 2, 3])
async def test_an_interrupted_pruning_leaves_a_usable_session(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    monkeypatch.setattr("ragflow_lg.checkpoints.sessions.session_pruning.BATCH", 5)
    async with reopen() as store:
        runner = runner_on(store, ECHO)
        await play(runner, *(question(number) for number in range(4)))
        left = steps

        def crash_after_some(method: Any) -> Any:
            async def erase(*arguments: Any) -> None:
                nonlocal left
                left -= 1
                if left < 0:
                    raise CheckpointError("crash")
                await method(*arguments)

            return erase

        with monkeypatch.context() as patch:
            patch.setattr(store.saver, "erase", crash_after_some(store.saver.erase))
            patch.setattr(store.saver.values, "erase_blobs", crash_after_some(store.saver.values.erase_blobs))
            with pytest.raises(CheckpointError, match="crash"):
                await prune_session(store, "anna", PruneLimits(1))
        assert (await play(runner, question(5))).endswith(question(5))
        await prune_session(store, "anna", PruneLimits(1))
        assert await prune_session(store, "anna", PruneLimits(1)) == Pruned()
        assert (await play(runner, question(6))).endswith(question(6))


async def test_parts_are_deleted_together_or_not_at_all(
    reopen_shared: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragflow_lg.checkpoints.steps.thread_values.PAGE", 1)
    async with reopen_shared() as store:
        await play(runner_on(store, ECHO), *(question(number) for number in range(8)))
        _, before, _ = await stored(store)
        tables = store.saver.tables
        erase, batches = tables.erase_blobs, 0

        async def crash_at_second(thread: str, names: Sequence[str]) -> None:
            nonlocal batches
            batches += 1
            if batches == 2:
                raise CheckpointError("crash")
            await erase(thread, names)

        with monkeypatch.context() as patch:
            patch.setattr(tables, "erase_blobs", crash_at_second)
            with pytest.raises(CheckpointError, match="crash"):
                await prune_session(store, "anna", PruneLimits(2))
        assert (await stored(store))[1] == before


async def test_a_file_shrinks(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with open_store(f"sqlite:///{path}") as store:
        queries = [os.urandom(50_000).hex() for _ in range(10)]
        await play(runner_on(store, ECHO), *queries)
    before = path.stat().st_size
    async with open_store(f"sqlite:///{path}") as store:
        freed = await prune_session(store, "anna", PruneLimits(1))
    assert before - path.stat().st_size > freed.bytes * 0.8


async def test_redis_keeps_no_keys_of_deleted_turns(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with open_store(redis_url, prefix=prefix) as store, redis_client(redis_url) as client:
        runner = runner_on(store, ECHO)
        await play(runner, question(0))
        one = await redis_keys(client, f"*{prefix}*")
        await play(runner, *(question(number) for number in range(1, 6)))
        await prune_session(store, "anna", PruneLimits(1))
        keys = await redis_keys(client, f"*{prefix}*")
        assert len(keys) == len(one)


async def test_pruned_runs_lose_their_traces(reopen: OpenStore) -> None:
    async with reopen() as store:
        await play(runner_on(store, ECHO), question(0), question(1))
        records = [record async for record in store.runs.of_session("anna")]
        for record in records:
            await store.traces.put(record, [{"component_id": "a", "trace": []}])
            await store.node_logs.put(record, [{"component_id": "b", "trace": []}])
        await prune_session(store, "anna", PruneLimits(1))
        for table in (store.traces, store.node_logs):
            assert [bool(await table.get(record.run_id)) for record in records] == [True, False]
            await store.runs.put(records[1])  # in Redis, a trace is found by its record
            assert await table.get(records[1].run_id) is None
            await store.runs.delete("anna", [records[1].run_id])


async def test_pruned_runs_lose_their_events(redis_url: str) -> None:
    prefix, client = fresh_prefix(), redis_client(redis_url)
    async with open_store(redis_url, prefix=prefix) as store:
        await play(runner_on(store, ECHO), question(0), question(1))
        new, old = [record.run_id async for record in store.runs.of_session("anna")]
        keys = [f"{prefix}agent:{kind}:{run}" for kind in ("events", "events-head") for run in (new, old)]
        for key in keys:
            await client.set(key, "x")
        await prune_session(store, "anna", PruneLimits(1))
        assert await redis_keys(client, f"{prefix}agent:events*") == sorted(key for key in keys if key.endswith(new))
    await client.aclose()
