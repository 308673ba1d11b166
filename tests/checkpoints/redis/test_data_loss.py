"""Servers that lose data which they have acknowledged: after a kill, a cut log, or a failover.

A run that has succeeded can be read by another process; a run that cannot be stored says so, and can be continued.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.sentinel import Sentinel

from ragflow_lg.base.errors import CheckpointError, RagflowLgError
from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.catalog import load_catalog
from ragflow_lg.checkpoints.sessions.session_pruning import count_entries
from ragflow_lg.component.decorator import component
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams
from ragflow_lg.runs.runner import Runner
from tests.fakes.canvas import node, text
from tests.fakes.redis_process import AOF, RDB, redis_process, sentinel_of
from tests.fakes.regions import form, loop, out, play_run, runner_of
from tests.stores import fresh_prefix, redis_client, redis_keys, store_opener

pytestmark = pytest.mark.slow

Gates = dict[str, Callable[[], Awaitable[None]]]


class GateParams(ComponentParams):
    name: str


def catalog_with_gates(gates: Gates) -> Any:
    """Return a catalog with the component Gate, which awaits the function with its name, once."""

    @component("Gate", params=GateParams, outputs=ComponentOutputs, description="Wait.")
    async def gate(ctx: Any, params: GateParams) -> ComponentOutputs:
        if function := gates.pop(params.name, None):
            await function()
        return ComponentOutputs()

    catalog = load_catalog()
    catalog.add(gate)
    return catalog


def big(letter: str) -> str:
    """Return a text that is stored as a blob."""
    return letter * 3000


CHAIN = {
    "a": text(["first"], big("a")),
    "first": node("Gate", {"name": "first"}, ["b"]),
    "b": text(["second"], big("b")),
    "second": node("Gate", {"name": "second"}, ["c"]),
    "c": text(["out"], big("c")),
    **out("{a@result}{b@result}{c@result}"),
}
SIBLINGS = {
    "a": text(["first", "b"], big("a")),
    "first": node("Gate", {"name": "first"}, ["c"]),
    "b": text(["c"], big("b")),
    "c": text(["out"], big("c")),
    **out("{a@result}{b@result}{c@result}"),
}
ANSWER = big("a") + big("b") + big("c")


async def play_and_check(url: str, canvas: dict[str, Any], gates: Gates) -> str:
    """Play a run and compare what another process reads. Return the error of the run, or ``""``."""
    open_store, catalog = store_opener(url), catalog_with_gates(gates)

    def runner(store: Any) -> Runner:
        return runner_of(canvas, catalog=catalog, store=store)

    async with open_store() as store:
        run = runner(store).start("s", {"query": "q"})
        try:
            await play_run(run)
            error = run.error or ""
        except RagflowLgError as problem:
            error = str(problem)
    assert gates == {}
    async with open_store() as store:
        if error:
            answer, _ = await play_run(runner(store).continue_("s"))
            assert answer == ANSWER
        else:
            assert run.answer == ANSWER
        state = await store.saver.aget_tuple(
            {"configurable": {"thread_id": thread_of_session("s"), "checkpoint_ns": ""}}
        )
        assert state is not None
        assert state.checkpoint["channel_values"]["history"][-1][1]["content"] == ANSWER
        answer, _ = await play_run(runner(store).start("s", {"query": "again"}))
        assert answer == ANSWER
    return error


async def test_blobs_that_a_snapshot_lacks_are_written_again(tmp_path: Path) -> None:
    with redis_process(tmp_path, *RDB) as server:

        async def lose_sibling() -> None:
            server.request("SAVE")
            # The sibling's result may be on its way, and be stored just before: then, there is nothing to lose.
            with suppress(TimeoutError):
                async with asyncio.timeout(2):
                    while not server.request("INFO", "persistence")["rdb_changes_since_last_save"]:
                        await asyncio.sleep(0.01)
            server.kill()
            server.start()

        assert await play_and_check(server.url, SIBLINGS, {"first": lose_sibling}) == ""


async def test_a_run_whose_latest_steps_a_snapshot_lacks_stores_its_next_steps(tmp_path: Path) -> None:
    with redis_process(tmp_path, *RDB) as server:

        async def save() -> None:
            server.request("SAVE")

        async def lose() -> None:
            server.kill()
            server.start()

        assert await play_and_check(server.url, CHAIN, {"first": save, "second": lose}) == ""


async def test_a_run_whose_pause_was_lost_does_not_report_that_it_waits(tmp_path: Path) -> None:
    canvas = {
        "first": node("Gate", {"name": "first"}, ["ask", "second"]),
        "ask": form("f", downstream=["out"]),
        "second": node("Gate", {"name": "second"}, ["out"]),
        **out("{ask@f}"),
    }
    with redis_process(tmp_path, *RDB) as server:

        async def save() -> None:
            server.request("SAVE")

        async def lose() -> None:
            await asyncio.sleep(0.5)  # the pause of the sibling is stored
            server.kill()
            server.start()

        open_store, catalog = store_opener(server.url), catalog_with_gates({"first": save, "second": lose})
        async with open_store() as store:
            run = runner_of(canvas, catalog=catalog, store=store).start("s", {"query": "q"})
            with pytest.raises(CheckpointError, match="has lost this pause"):
                await play_run(run)
        async with open_store() as store:
            runner = runner_of(canvas, catalog=catalog, store=store)
            await play_run(runner.continue_("s"))
            assert (await play_run(runner.resume("s", {"f": "1"})))[0] == "1"


async def test_a_later_turn_of_the_same_process_does_not_rely_on_lost_blobs(tmp_path: Path) -> None:
    """The process has stored blobs that the server has lost since; it stores the same texts again."""
    with redis_process(tmp_path, *RDB) as server:
        open_store = store_opener(server.url)
        async with open_store() as store:
            runner = runner_of({"a": text(["out"], big("a")), **out("{a@result}")}, store=store)
            await play_run(runner.start("other", {"query": "q"}))
            server.request("SAVE")
            await play_run(runner.start("s", {"query": "q"}))
            server.kill()
            server.start()
            await play_run(runner.start("s", {"query": "q"}))
        async with open_store() as store:
            runner = runner_of({"a": text(["out"], big("a")), **out("{a@result}")}, store=store)
            assert (await play_run(runner.start("s", {"query": "again"})))[0] == big("a")


@pytest.mark.parametrize("extra", [0, 1, 700])
async def test_a_cut_log_makes_no_session_unreadable(tmp_path: Path, extra: int) -> None:
    """The log ends at a step, or in the middle of a write."""
    # A busy machine writes the log late if it is not written at once, and its size would be that of an earlier step.
    with redis_process(tmp_path, *AOF, "--appendfsync", "always") as server:
        sizes: dict[Path, int] = {}

        async def note_sizes() -> None:
            sizes.update(server.log_sizes())

        async def lose() -> None:
            async with asyncio.timeout(10):
                while any(path.stat().st_size <= size + extra for path, size in sizes.items()):
                    await asyncio.sleep(0.01)  # the step is stored by a timer
            server.kill()
            for path, size in sizes.items():
                os.truncate(path, size + extra)
            server.start()

        assert await play_and_check(server.url, CHAIN, {"first": note_sizes, "second": lose}) == ""


async def test_an_empty_server_is_described(tmp_path: Path) -> None:
    with redis_process(tmp_path, *RDB) as server:

        async def lose() -> None:
            server.kill()
            server.start()

        async with store_opener(server.url)() as store:
            runner = runner_of(CHAIN, catalog=catalog_with_gates({"second": lose}), store=store)
            failures: list[str] = []
            while not failures or (len(failures) < 5 and "cannot be reached" in failures[-1]):
                # On a busy machine, a request may wait for the server until its time is over.
                with pytest.raises(RagflowLgError) as failure:
                    await play_run(runner.start(f"s{len(failures)}", {"query": "q"}))
                failures.append(str(failure.value))
            assert "no longer holds its session: its lease has expired, or" in failures[-1]


async def test_a_failover_makes_no_session_unreadable(tmp_path: Path) -> None:
    (tmp_path / "replica").mkdir()
    with redis_process(tmp_path / "master", *RDB) as master, redis_process(tmp_path / "replica", *RDB) as replica:
        replica.request("REPLICAOF", "127.0.0.1", str(master.port))
        with sentinel_of(master, tmp_path) as url:
            port = int(url.partition("127.0.0.1:")[2].partition("/")[0])
            sentinel: Any = Sentinel([("127.0.0.1", port)])
            await _wait_until(lambda: sentinel.discover_slaves("sessions"))

            async def disconnect() -> None:
                # WAIT would consider only the writes of its own connection.
                written = master.request("INFO", "replication")["master_repl_offset"]
                await _wait_until(lambda: replica.request("INFO", "replication")["slave_repl_offset"] >= written)
                replica.request("REPLICAOF", "127.0.0.1", "1")

            async def fail_over() -> None:
                master.kill()  # the next write waits until the replica is the master

            assert await play_and_check(url, CHAIN, {"first": disconnect, "second": fail_over}) == ""


async def _wait_until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(30):
        while True:
            with suppress(redis.RedisError):
                if await asyncio.to_thread(condition):
                    return
            await asyncio.sleep(0.1)


async def test_a_session_whose_checkpoints_are_gone_does_not_begin_again(redis_url: str) -> None:
    prefix = fresh_prefix()
    canvas = {**loop({"x": text(["ask"], big("x")), "ask": form("f")}, count=3), **out("done")}
    async with store_opener(redis_url, prefix)() as store, redis_client(redis_url) as client:
        runner = runner_of(canvas, first=["lp"], store=store)
        await play_run(runner.start("s", {"query": "q"}))
        await play_run(runner.resume("s", {"f": "1"}))
        await client.delete(*await redis_keys(client, f"{prefix}checkpoints:*"))
        with pytest.raises(CheckpointError, match="has lost a part of this session"):
            await play_run(runner.resume("s", {"f": "2"}))
        assert await count_entries(store, "s") == (0, 2)
        await store.delete_session("s")
