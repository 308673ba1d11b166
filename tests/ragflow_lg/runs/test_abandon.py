from typing import Any

import pytest

from ragflow_lg.base.errors import ConflictError
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.abandon import abandon
from ragflow_lg.runs.run import session_status, thread_config
from ragflow_lg.runs.runner import Runner
from ragflow_lg.services.sessions import hold_lease
from tests.fakes.canvas import CATALOG, canvas
from tests.fakes.regions import form, iteration, loop, out, play_run, runner_of
from tests.fakes.services import fake_services
from tests.stores import OpenStore

TWO = {"a": form("x", downstream=["out"]), "b": form("y", downstream=["out"]), **out("{a@x}+{b@y} {sys.query}")}


async def test_an_abandoned_turn_is_cancelled_and_the_next_one_starts_normally(reopen: OpenStore) -> None:
    compiled = compile_canvas(canvas(TWO, ["a", "b"]), CATALOG)
    async with reopen() as store:
        runner = Runner(compiled, fake_services(), store=store)
        await play_run(runner.start("s", {"query": "one"}))
        await play_run(runner.resume("s", {"x": "A"}))
        await runner.abandon("s")
        assert await runner.pauses("s") == []
    async with reopen() as store:
        runner = Runner(compiled, fake_services(), store=store)
        canvas_ = compiled.with_saver(store.saver)
        assert session_status(await canvas_.graph.aget_state(thread_config(canvas_, "s"))) == "cancelled"
        assert [record.status async for record in store.runs.of_session("s")] == ["cancelled", "waiting"]
        rejections = ((runner.resume("s", {"y": "B"}), "is not waiting"), (runner.continue_("s"), "no unfinished turn"))
        for run, reason in rejections:
            with pytest.raises(ConflictError, match=reason):
                await play_run(run)
        with pytest.raises(ConflictError, match="is not waiting"):
            await runner.abandon("s")
        assert (await play_run(runner.start("s", {"query": "two"})))[1] == ["+begin", "-begin", "?x,y"]
        assert (await play_run(runner.resume("s", {"x": "C", "y": "D"})))[0] == "C+D two"
        history = (await runner.state("s"))["history"]
        assert [text for role, text in history if role == "user"] == ["one", "", "two", ""]


@pytest.mark.parametrize(
    "components",
    [
        {**loop({"ask": form("w")}, count=2), **out("{ask@w}")},
        {**iteration({"ask": form("w")}, {"all": "ask@w"}, items="sys.files"), **out("{it@all}")},
    ],
)
async def test_a_pause_in_a_region_is_abandoned(components: dict[str, Any]) -> None:
    runner = runner_of(components)
    request: Any = {"query": "q", "files": [{"id": "1", "name": "n"}, {"id": "2", "name": "m"}]}
    assert (await play_run(runner.start("s", request)))[1][-1] == "?w"
    await runner.abandon("s")
    assert await runner.pauses("s") == []
    _, events = await play_run(runner.start("s", request))
    assert (events[0], events[-1]) == ("+begin", "?w")
    await play_run(runner.resume("s", {"w": "x"}))
    assert (await play_run(runner.resume("s", {"w": "y"})))[1][-1] == "-out"


async def test_a_running_session_cannot_be_abandoned(reopen: OpenStore) -> None:
    async with reopen() as store:
        runner = Runner(compile_canvas(canvas(TWO, ["a", "b"]), CATALOG), fake_services(), store=store)
        await play_run(runner.start("s", {"query": "one"}))
        async with hold_lease(store.leases, "s"):
            with pytest.raises(ConflictError, match="already running"):
                await runner.abandon("s")
        assert len(await runner.pauses("s")) == 2


async def test_a_turn_can_be_abandoned_with_a_canvas_without_its_form(reopen: OpenStore) -> None:
    other = compile_canvas(canvas(out("{sys.query}")), CATALOG)
    async with reopen() as store:
        services = fake_services()
        await play_run(Runner(compile_canvas(canvas(TWO, ["a", "b"]), CATALOG), services, store=store).start("s", {}))
        await abandon(other.with_saver(store.saver), "s", store, services.clock)
        assert [record.status async for record in store.runs.of_session("s")] == ["cancelled"]
        assert (await play_run(Runner(other, services, store=store).start("s", {"query": "two"})))[0] == "two"
