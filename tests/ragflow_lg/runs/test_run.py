import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import AnswerError, CanvasChangedError, CheckpointError, ConflictError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.lease_owner import this_process
from ragflow_lg.checkpoints.redis.redis_server import redis_server
from ragflow_lg.component.decorator import component
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.run import session_status, thread_config
from ragflow_lg.runs.runner import Runner
from ragflow_lg.services.chat import ChatDelta
from ragflow_lg.services.sessions import hold_lease
from tests.fakes.canvas import canvas
from tests.fakes.regions import assign, form, iteration, loop, node, out, play_run, runner_of, text
from tests.fakes.services import OneModel, fake_services
from tests.stores import OpenStore


class Slow:
    """A model that says one piece, and then nothing until it is let go."""

    context_tokens = 8192
    has_vision = False

    def __init__(self) -> None:
        self.calls = 0
        self.is_let_go = False

    async def complete(self, request: Any) -> str:
        return ""

    async def stream(self, request: Any) -> Any:
        self.calls += 1
        yield ChatDelta("said ")
        while not self.is_let_go:
            await asyncio.sleep(0.01)
        yield ChatDelta("all")


STREAM = {
    "a": text(["g"], "A"),
    "g": node("LLM", {"prompts": "x"}, ["m"]),
    "m": node("Message", {"content": "{g@content}"}),
}


async def until_it_speaks(run: Any) -> Any:
    events = aiter(run)
    async for event in events:
        if event.event == "message":
            return events
    raise AssertionError("it said nothing")


async def test_a_cancel_from_elsewhere_stops_a_model_in_flight_and_the_turn_goes_on(reopen: OpenStore) -> None:
    model = Slow()
    async with reopen() as store, reopen() as other:
        play = runner_of(STREAM, services=fake_services(models=OneModel(model)), store=store)  # type: ignore[arg-type]
        run = play.start("s", {"query": "q"})
        events = await until_it_speaks(run)
        began = time.monotonic()
        await other.cancels.request("s")
        rest = [event.event async for event in events]
        assert time.monotonic() - began < 2
        assert (run.status, rest[-1]) == ("cancelled", "workflow_finished")
        assert [r.status async for r in store.runs.of_session("s")] == ["cancelled"]
        model.is_let_go = True
        answer, node_events = await play_run(play.continue_("s"))
        assert answer == "said all"
        assert "+a" not in node_events
        assert model.calls == 2
        assert (await play_run(play.start("s", {"query": "again"})))[0] == "said all"


async def test_a_run_waits_for_the_turn_before_to_let_go(reopen: OpenStore) -> None:
    async with reopen() as store, reopen() as other:
        play = runner_of({"a": text([], "A")}, store=store, busy_s=5)
        async with hold_lease(other.leases, "s"):
            waiting = asyncio.create_task(play_run(play.start("s", {"query": "q"})))
            await asyncio.sleep(0.1)
            assert not waiting.done()
        assert (await waiting)[1]


async def test_a_process_that_was_asleep_leaves_the_record_of_its_run_to_who_took_it_over(reopen: OpenStore) -> None:
    async with reopen() as store:
        play = runner_of(STREAM, services=fake_services(models=OneModel(Slow())), store=store)  # type: ignore[arg-type]
        run = play.start("s", {"query": "q"})
        events = await until_it_speaks(run)
        table = store.leases.table  # type: ignore[attr-defined]
        assert await table.take(run.record.session, this_process(), run.lease_token) > run.lease_token
        await store.runs.put(replace(run.record, status="succeeded"))
        run.cancel()
        assert [event.event async for event in events]
        assert [r.status async for r in store.runs.of_session("s")] == ["succeeded"]


async def test_a_second_runner_gets_a_conflict_and_the_first_goes_on(reopen: OpenStore) -> None:
    model = Slow()
    async with reopen() as store, reopen() as other:
        services = fake_services(models=OneModel(model))  # type: ignore[arg-type]
        run = runner_of(STREAM, services=services, store=store).start("s", {"query": "q"})
        events = await until_it_speaks(run)
        second = runner_of(STREAM, services=services, store=other)
        with pytest.raises(ConflictError, match="already running"):
            await play_run(second.start("s", {"query": "mine"}))
        assert (await play_run(second.start("another", {"query": "mine"}))) if model.is_let_go else True
        model.is_let_go = True
        assert [event.event async for event in events][-1] == "workflow_finished"
        assert run.status == "succeeded"
        assert [r.status async for r in store.runs.of_session("s")] == ["succeeded"]


async def test_a_runner_that_loses_its_lease_stops(reopen_shared: OpenStore) -> None:
    model = Slow()
    async with reopen_shared() as store:
        services = fake_services(models=OneModel(model))  # type: ignore[arg-type]
        run = runner_of(STREAM, services=services, store=store).start("s", {"query": "q"})
        events = await until_it_speaks(run)
        run._on_lease_lost()  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(ConflictError, match="taken over this session"):
            [event async for event in events]
        assert [r.status async for r in store.runs.of_session("s")] == ["running"]


async def test_a_drained_run_goes_on_elsewhere(reopen: OpenStore) -> None:
    model = Slow()
    async with reopen() as store:
        services = fake_services(models=OneModel(model))  # type: ignore[arg-type]
        play = runner_of(STREAM, services=services, store=store)
        run = play.start("s", {"query": "q"})
        events = await until_it_speaks(run)
        play.drain()
        model.is_let_go = True
        [event async for event in events]
        assert run.status == "drained"
    async with reopen() as store:
        play = runner_of(STREAM, services=fake_services(models=OneModel(model)), store=store)  # type: ignore[arg-type]
        _, node_events = await play_run(play.continue_("s"))
        assert node_events == ["+m", "-m"]
        assert (await play.state("s"))["outputs"]["m"]["content"] == "said all"


async def test_a_turn_does_not_go_on_with_a_canvas_that_has_lost_its_place() -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    saver = InMemorySaver()
    await play_run(runner_of({"ask": form("w", downstream=["out"]), **out("{ask@w}")}, saver=saver).start("s", {}))
    changed = {"other": form("w", downstream=["out"]), **out("{other@w}")}
    with pytest.raises(CanvasChangedError, match="ask is gone"):
        await play_run(runner_of(changed, saver=saver).resume("s", {"w": "x"}))
    reworded = {"ask": form("w", downstream=["out"]), **out("now: {ask@w}")}
    assert (await play_run(runner_of(reworded, saver=saver).resume("s", {"w": "x"})))[0] == "now: x"


PLACES = {"items": {"name": "items", "type": "array<string>", "value": ["a", "b", "c"]}}


def over(side_by_side: int) -> dict[str, Any]:
    body = {"t": text(["u"], "{ii@item}!"), "u": text(script="{t@result}?")}
    return {**iteration(body, {"r": "u@result"}, items="env.items", max_concurrency=side_by_side), **out("{it@r}")}


@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0)])
async def test_a_turn_does_not_go_on_in_a_region_that_repeats_in_another_way(before: int, after: int) -> None:
    async with open_store("memory://", SystemClock()) as store:
        play = runner_of(over(before), variables=PLACES, store=store)
        run = play.start("s", {"query": "q"})
        async for event in run:
            if event.event == "node_finished" and event.component_id == "t":  # type: ignore[union-attr]
                run.drain()
        assert run.status == "drained"
        with pytest.raises(CanvasChangedError, match=r"it was Iteration with .* and is now Iteration with"):
            await play_run(runner_of(over(after), variables=PLACES, store=store).continue_("s"))
        assert (await play_run(play.continue_("s")))[0] == '["a!?", "b!?", "c!?"]'


async def test_the_last_event_tells_of_what_is_stored(reopen: OpenStore) -> None:
    async with reopen() as store:
        play = runner_of({"t": text(["out"], "x"), **out("said")}, store=store)
        async for event in play.start("s", {"query": "q"}):
            if event.event == "workflow_finished":
                break
        state = await play.state("s")
        assert [state["turn"]["status"], len(state["history"])] == ["succeeded", 2]


async def test_a_store_that_fails_is_no_cancel() -> None:
    async with open_store("memory://", SystemClock()) as store:
        play = runner_of(out("x"), store=store)
        writes = 0

        async def fails(*arguments: Any, **more: Any) -> Any:
            nonlocal writes
            writes += 1
            if writes == 2:
                raise CheckpointError("disk full")
            return await stores(*arguments, **more)

        stores, store.saver.inner.aput = store.saver.inner.aput, fails  # type: ignore[method-assign]
        run = play.start("s", {"query": "q"})
        with pytest.raises(CheckpointError):
            await play_run(run)
        records = [(r.status, r.reason, r.is_cancel_requested) async for r in store.runs.of_session("s")]
        assert (run.status, records) == ("failed", [("failed", "disk full", False)])


async def test_without_a_store_there_is_nothing_to_resume_or_to_go_on_with() -> None:
    play = runner_of({"t": text()})
    for run in (play.resume("s", {"a": 1}), play.continue_("s")):
        with pytest.raises(ConflictError, match="turns are independent"):
            await play_run(run)


async def test_a_loop_with_forms_is_restarted_after_every_answer(reopen: OpenStore) -> None:
    body = {"ask": form("w", tips="{lp@seen}", downstream=["t"]), "t": text(["k"], "{lp@seen}{ask@w}")}
    body["k"] = assign("lp@seen", "t@result")
    components = {**loop(body, count=3, variables={"seen": ""}), **out("{lp@seen}")}
    tips: list[str] = []
    request: dict[str, Any] = {"query": "q"}
    for word in ("a", "b", "c", ""):
        async with reopen() as store:
            play = runner_of(components, store=store)
            answer, _ = await play_run(play.start("s", request))  # type: ignore[arg-type]
            tips += [pause.tips for pause in await play.pauses("s")]
            request = {"query": "", "inputs": {"w": {"value": word}}}
    assert (answer, tips) == ("abc", ["", "a", "ab"])


class Died(BaseException):
    """As if the process had ended: nobody handles it."""


class StepParams(ComponentParams):
    pass


class StepOutputs(ComponentOutputs):
    answer: Any = None


def working(log: list[str], *, fails_at: int = 0, runs_once: bool = False) -> Any:
    """A component that does three things, one after the other, and breaks off at one of them the first time."""

    @component("Worker", params=StepParams, outputs=StepOutputs, description="Works.", runs_once=runs_once)
    async def run(ctx: Any, params: StepParams) -> StepOutputs:
        done: list[Any] = []
        for number in (1, 2, 3):

            async def call(number: int = number) -> Any:
                log.append(f"call {number}")
                if log.count(f"call {fails_at}") == 1 and number == fails_at:
                    raise Died
                return {"number": number}

            done.append(await ctx.step("call", {"n": number}, call))
        return StepOutputs(answer=done)

    return run


def worker(spec: Any, store: Any) -> Any:
    catalog = load_catalog()
    catalog.add(spec)
    document = canvas({"w": node("Worker", {}, ["out"]), **out("{w@answer}")})
    return Runner(compile_canvas(document, catalog), fake_services(), store=store)


async def test_steps_that_were_stored_are_not_done_again(reopen: OpenStore) -> None:
    log: list[str] = []
    spec = working(log, fails_at=3)
    async with reopen() as store:
        with pytest.raises(Died):
            await play_run(worker(spec, store).start("s", {"query": "q"}))
    async with reopen() as store:
        answer, _ = await play_run(worker(spec, store).continue_("s"))
    assert log == ["call 1", "call 2", "call 3", "call 3"]
    assert answer == '[{"number": 1}, {"number": 2}, {"number": 3}]'


@pytest.mark.parametrize(("decision", "calls"), [("run it again", 2), ("continue with an error", 1)])
async def test_a_node_that_runs_once_asks_before_it_runs_again(reopen: OpenStore, decision: str, calls: int) -> None:
    log: list[str] = []
    spec = working(log, fails_at=1, runs_once=True)
    async with reopen() as store:
        with pytest.raises(Died):
            await play_run(worker(spec, store).start("s", {"query": "q"}))
    async with reopen() as store:
        play = worker(spec, store)
        run = play.continue_("s")
        await play_run(run)
        assert run.status == "waiting"
        run = play.resume("s", {"decision": decision})
        await play_run(run)
    assert log.count("call 1") == calls
    assert run.status == ("succeeded" if calls == 2 else "failed")
    assert calls == 2 or "must not run twice" in (run.error or "")


async def test_without_a_store_steps_are_simply_done() -> None:
    log: list[str] = []
    answer, _ = await play_run(worker(working(log), None).start("s", {"query": "q"}))
    assert (answer.count("number"), log) == (3, ["call 1", "call 2", "call 3"])


async def test_a_redis_that_is_killed_and_comes_back_loses_nothing(tmp_path: Path) -> None:
    model = Slow()
    services = fake_services(models=OneModel(model))  # type: ignore[arg-type]
    with redis_server(keep=tmp_path) as url:
        port = int(url.rpartition(":")[2])
        store = open_store(url, SystemClock())
        opened = await store.__aenter__()
        run = runner_of(STREAM, services=services, store=opened).start("s", {"query": "q"})
        events = await until_it_speaks(run)
    model.is_let_go = True
    async with asyncio.timeout(30):
        with pytest.raises(CheckpointError):
            [event async for event in events]
        with suppress(Exception):
            await store.__aexit__(None, None, None)
    assert run.status == "failed"
    with redis_server(keep=tmp_path, port=port) as url:
        async with open_store(url, SystemClock()) as opened, asyncio.timeout(25):
            play = runner_of(STREAM, services=services, store=opened)
            while True:  # the lease could not be given back; it runs out
                try:
                    answer, node_events = await play_run(play.continue_("s"))
                    break
                except ConflictError:
                    await asyncio.sleep(0.5)
    assert answer == "said all"
    assert "+a" not in node_events


@pytest.mark.parametrize("stop", ["pause", "drain"])
async def test_a_canvas_that_has_changed_inside_a_region_is_refused_too(stop: str) -> None:
    def components(name: str) -> dict[str, Any]:
        asks = form("a", downstream=["m"]) if stop == "pause" else text(["m"], "z")
        shows = node("Message", {"content": [f"got {{{name}@{'a' if stop == 'pause' else 'result'}}}"]})
        return {**loop({"t": text([name], "r"), name: asks, "m": shows}), **out("end")}

    from langgraph.checkpoint.memory import InMemorySaver

    saver = InMemorySaver()
    play = runner_of(components("f"), saver=saver)
    run = play.start("s", {"query": "q"})
    async for event in run:
        if event.event == "node_finished" and event.component_id == "t":  # type: ignore[union-attr]
            play.drain() if stop == "drain" else None
    changed = runner_of(components("g"), saver=saver)
    with pytest.raises(CanvasChangedError, match="f is gone"):
        await play_run(changed.resume("s", {"a": "1"}) if stop == "pause" else changed.continue_("s"))
    rest, _ = await play_run(play.resume("s", {"a": "1"}) if stop == "pause" else play.continue_("s"))
    assert rest.startswith("got ")


async def test_an_answer_of_another_shape_leaves_the_pause_open() -> None:
    play = runner_of({"ask": form("w", downstream=["out"]), **out("{ask@w}")})
    await play_run(play.start("s", {"query": "q"}))
    (pause,) = await play.pauses("s")
    for wrong in ("text", [["w", "x"]], 5):
        with pytest.raises(AnswerError, match="map of its fields"):
            await play_run(play.resume("s", {pause.id: wrong}))
    assert (await play_run(play.resume("s", {pause.id: {"w": "x"}})))[0] == "x"


async def test_a_run_is_drained_while_it_still_opens() -> None:
    play = runner_of({"ask": form("w", downstream=["out"]), **out("{ask@w}")})
    await play_run(play.start("s", {"query": "q"}))
    run = play.resume("s", {"w": "x"})
    run.drain()
    assert [event async for event in run] == []
    assert run.status == "drained"
    assert (await play_run(play.continue_("s")))[0] == "x"


async def test_lists_that_grow_take_linear_room(tmp_path: Path) -> None:
    """Whatever makes them grow: an assigner in a Loop, the history of a session, a region that is resumed."""

    async def bytes_of(store: Any) -> int:
        rows = await store.saver.inner._file.rows(
            "SELECT (SELECT sum(length(text)) FROM blobs) + (SELECT sum(length(checkpoint)) FROM checkpoints)"
            " + (SELECT coalesce(sum(length(value)), 0) FROM writes)"
        )
        return int(rows[0][0])

    sizes: dict[str, list[int]] = {"assigner": [], "conversation": [], "resumed": []}
    row = "x" * 200
    variables = {"rows": {"name": "rows", "type": "array<string>", "value": []}}
    for count in (50, 100, 200):
        body = {"t": text(["set"], row + "{lp@n}"), "set": assign("env.rows", "t@result", "append")}
        async with open_store(f"sqlite:///{tmp_path}/a{count}.db", SystemClock()) as store:
            canvas_ = {**loop(body, count=count), **out("done")}
            await play_run(runner_of(canvas_, store=store, variables=variables).start("s", {"query": "q"}))
            sizes["assigner"].append(await bytes_of(store))
        async with open_store(f"sqlite:///{tmp_path}/c{count}.db", SystemClock()) as store:
            play = runner_of(out("{sys.query}" + row), store=store)
            for number in range(count // 2):
                await play_run(play.start("s", {"query": f"{number}" + row}))
            sizes["conversation"].append(await bytes_of(store))
        async with open_store(f"sqlite:///{tmp_path}/r{count}.db", SystemClock()) as store:
            asking = {"ask": form("w", downstream=["keep"]), "keep": text([], row + "{ask@w}")}
            canvas_ = {**iteration(asking, {"r": "keep@result"}), **out("done")}
            play = runner_of(canvas_, store=store)
            await play_run(play.start("s", {"query": "q", "inputs": {"items": {"value": list(range(count // 4))}}}))
            for number in range(count // 4):
                await play_run(play.resume("s", {"w": f"{number}"}))
            sizes["resumed"].append(await bytes_of(store))
    for name, (small, middle, large) in sizes.items():
        assert large - middle < 2.6 * (middle - small), (name, small, middle, large)


async def test_how_a_session_stands_is_told_by_its_state() -> None:
    components = {"ask": form("w", downstream=["out"]), **out("{ask@w}")}
    play = runner_of(components)
    canvas: Any = play._canvas  # pyright: ignore[reportPrivateUsage]

    async def status() -> str:
        return session_status(await canvas.graph.aget_state(thread_config(canvas, "s")))

    await play_run(play.start("s", {"query": "q"}))
    assert await status() == "waiting"
    await play_run(play.resume("s", {"w": "x"}))
    assert await status() == "succeeded"
    await play.rerun("s", "s2", "out")
    assert session_status(await canvas.graph.aget_state(thread_config(canvas, "s2"))) == "running"
