import pytest
from langgraph.checkpoint.memory import InMemorySaver

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from ragflow_lg.runs.stored_steps import list_checkpoints, page_checkpoints
from tests.fakes.canvas import CATALOG, canvas, text
from tests.fakes.regions import form, loop, out, play_run
from tests.fakes.services import fake_services
from tests.stores import OpenStore

CANVAS = compile_canvas(canvas({"t": text(["out"], "{sys.query}!"), **out("{t@result}")}), CATALOG)


async def test_the_history_is_read_by_pages_and_ends_early_if_it_shrinks_meanwhile(reopen: OpenStore) -> None:
    async with reopen() as store:
        runner, graph = Runner(CANVAS, fake_services(), store=store), CANVAS.with_saver(store.saver)
        for number in range(3):
            await play_run(runner.start("s", {"query": str(number)}))
        everything = [info async for info in runner.history("s")]
        assert len(everything) >= 12
        for offset, limit in ((0, 1), (3, 2), (len(everything) - 1, 5), (len(everything), 5)):
            infos, has_more = await page_checkpoints(graph, store.saver, "s", offset, limit)
            assert infos == everything[offset : offset + limit]
            assert has_more == (offset + limit < len(everything))
        listed = 0
        async for _ in list_checkpoints(graph, store.saver, "s"):
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
