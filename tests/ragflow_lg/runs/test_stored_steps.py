from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints import Store
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from ragflow_lg.runs.stored_steps import list_checkpoints, page_checkpoints
from tests.fakes.canvas import CATALOG, canvas, text
from tests.fakes.regions import form, loop, out, play_run
from tests.fakes.services import fake_services
from tests.stores import OpenStore

CANVAS = compile_canvas(canvas({"t": text(["out"], "{sys.query}!"), **out("{t@result}")}), CATALOG)
TURNS = 12


@asynccontextmanager
async def _talk(reopen: OpenStore, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[tuple[Store, Runner, list[str]]]:
    """Play a conversation; yield its store and runner, and the list of checkpoints read from now on."""
    async with reopen() as store:
        runner, reads = Runner(CANVAS, fake_services(), store=store), list[str]()
        for number in range(TURNS):
            await play_run(runner.start("s", {"query": str(number)}))
        read = store.saver.tables.get

        async def count(key: Any) -> Any:
            reads.append(key.checkpoint or "newest")
            return await read(key)

        monkeypatch.setattr(store.saver.tables, "get", count)
        yield store, runner, reads


async def test_a_page_of_the_history_reads_only_the_states_of_its_steps(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _talk(reopen, monkeypatch) as (store, runner, reads):
        everything = [info async for info in runner.history("s")]
        assert len(everything) == len(set(reads)) >= 4 * TURNS
        graph = CANVAS.with_saver(store.saver)
        for offset, limit in ((0, 1), (3, 2), (len(everything) - 1, 5), (len(everything), 5)):
            reads.clear()
            infos, has_more = await page_checkpoints(graph, store.saver, "s", offset, limit)
            assert infos == everything[offset : offset + limit]
            assert has_more == (offset + limit < len(everything))
            assert reads == [info.checkpoint for info in infos]


async def test_reruns_and_forks_read_only_the_last_turn(reopen: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    async with _talk(reopen, monkeypatch) as (_, runner, reads):
        steps = [info async for info in runner.history("s")]
        newest = {info.checkpoint for info in steps[:6]}
        others = {info.checkpoint for info in steps[6:]}
        reads.clear()
        answer, _ = await play_run(await runner.rerun("s", "again", "t", changes={"sys.query": "new"}))
        assert answer == "new!"
        assert newest & set(reads)
        assert not others & set(reads)
        reads.clear()
        await runner.fork("s", "now")
        await runner.fork("s", "old", steps[-2].checkpoint)
        assert others & set(reads) == {steps[-2].checkpoint}


async def test_an_old_step_in_a_region_is_found_from_its_own_position(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = canvas({**loop({"b": text([], "{sys.query}")}, count=2), **out("{sys.query}")})
    async with reopen() as store:
        runner, reads = Runner(compile_canvas(document, CATALOG), fake_services(), store=store), list[str]()
        for number in range(TURNS):
            await play_run(runner.start("s", {"query": str(number)}))
        inner = [info for info in [info async for info in runner.history("s")] if info.region]
        read = store.saver.tables.get

        async def count(key: Any) -> Any:
            reads.append(key.checkpoint or "newest")
            return await read(key)

        monkeypatch.setattr(store.saver.tables, "get", count)
        oldest = min(inner, key=lambda info: info.checkpoint)
        await runner.fork("s", "old", oldest.checkpoint)
        assert len(reads) < 10  # however long the session is
        monkeypatch.undo()
        assert (await play_run(runner.continue_("old")))[0] == "0"


async def test_a_history_that_shrinks_while_it_is_listed_ends_early(reopen: OpenStore) -> None:
    async with reopen() as store:
        runner = Runner(CANVAS, fake_services(), store=store)
        for number in range(3):
            await play_run(runner.start("s", {"query": str(number)}))
        listed = 0
        async for _ in list_checkpoints(CANVAS.with_saver(store.saver), store.saver, "s"):
            listed += 1
            if listed == 2:
                await store.delete_session("s")
        assert listed == 2


async def test_steps_of_langgraphs_own_saver_are_listed_as_well() -> None:
    saver = InMemorySaver()
    graph = compile_canvas(canvas({**loop({"ask": form("w")}, count=1), **out("x")}), CATALOG)
    runner = Runner(graph, fake_services(), saver=saver)
    await play_run(runner.start("s", {"query": "q"}))
    steps = [info async for info in runner.history("s")]
    assert [info.region for info in steps][-1] == "lp"
    assert await page_checkpoints(graph.with_saver(saver), saver, "s", 1, 2) == (steps[1:3], True)
    with pytest.raises(CheckpointError, match="has no checkpoint 'none'"):
        await runner.fork("s", "twin", "none")
