import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import AnswerError, CheckpointError, ConflictError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.checkpoints import Store, open_store
from ragflow_lg.checkpoints.lease_owner import this_process
from ragflow_lg.checkpoints.redis.redis_server import redis_server
from ragflow_lg.component.decorator import component
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams
from ragflow_lg.component.state import TurnRequest
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.run import Run
from ragflow_lg.runs.runner import Runner, newest_run
from ragflow_lg.runs.wire.wire_events import WireEvent
from ragflow_lg.services.chat import ChatDelta, ChatRequest
from ragflow_lg.services.http import HttpRequest, HttpResponse
from ragflow_lg.services.sessions import hold_lease
from tests.fakes.canvas import canvas
from tests.fakes.regions import assign, form, iteration, loop, node, out, play_run, runner_of, text
from tests.fakes.services import OneModel, ScriptedModel, fake_services
from tests.stores import OpenStore, redis_client, redis_keys, sqlite_file, stored_leases


class SlowModel(ScriptedModel):
    """A model that streams one piece and waits for its release before the next one."""

    stream_count = 0
    is_released = False

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        self.stream_count += 1
        yield ChatDelta("the ")
        while not self.is_released:
            await asyncio.sleep(0.01)
        yield ChatDelta("rest")


STREAM = {
    "a": text(["g"], "A"),
    "g": node("LLM", {"prompts": "x"}, ["m"]),
    "m": node("Message", {"content": "{g@content}"}),
}


class FailingPut:
    """An ``aput`` that fails for one checkpoint, however often it is tried."""

    def __init__(self, function: Callable[..., Awaitable[Any]], fails_at: int) -> None:
        self.ids: list[str] = []
        self._function = function
        self._fails_at = fails_at

    @property
    def has_failed(self) -> bool:
        """Whether there was such a checkpoint."""
        return len(self.ids) >= self._fails_at

    async def __call__(self, config: Any, checkpoint: Any, *more: Any) -> Any:
        if checkpoint["id"] not in self.ids:
            self.ids.append(checkpoint["id"])
        if self.ids.index(checkpoint["id"]) + 1 == self._fails_at:
            raise CheckpointError("disk full")
        return await self._function(config, checkpoint, *more)


async def until_message(run: Run) -> AsyncIterator[WireEvent]:
    """Read a run until its first message; return the iterator over the rest."""
    events = aiter(run)
    async for event in events:
        if event.event == "message":
            return events
    raise AssertionError("the run has ended without a message")


async def collect(events: AsyncIterator[WireEvent]) -> list[WireEvent]:
    return [event async for event in events]


async def test_another_process_can_cancel_a_run_and_the_turn_can_continue(reopen: OpenStore) -> None:
    model = SlowModel()
    async with reopen() as store, reopen() as other:
        runner = runner_of(STREAM, services=fake_services(models=OneModel(model)), store=store)
        run = runner.start("s", {"query": "q"})
        events = await until_message(run)
        start_s = time.monotonic()
        await other.cancels.request("s")
        rest = [event.event async for event in events]
        assert time.monotonic() - start_s < 2
        assert (run.status, rest[-1]) == ("cancelled", "workflow_finished")
        assert [r.status async for r in store.runs.of_session("s")] == ["cancelled"]
        model.is_released = True
        answer, node_events = await play_run(runner.continue_("s"))
        assert answer == "the rest"
        assert "+a" not in node_events
        assert model.stream_count == 2
        assert (await play_run(runner.start("s", {"query": "again"})))[0] == "the rest"


async def test_a_run_waits_for_the_lease_of_the_previous_turn(reopen: OpenStore) -> None:
    async with reopen() as store, reopen() as other:
        runner = runner_of({"a": text([], "A")}, store=store, busy_s=5)
        async with hold_lease(other.leases, "s"):
            waiting = asyncio.create_task(play_run(runner.start("s", {"query": "q"})))
            await asyncio.sleep(0.1)
            assert not waiting.done()
        assert (await waiting)[1]


async def test_a_run_that_was_taken_over_does_not_change_its_record(reopen: OpenStore) -> None:
    async with reopen() as store:
        runner = runner_of(STREAM, services=fake_services(models=OneModel(SlowModel())), store=store)
        run = runner.start("s", {"query": "q"})
        events = await until_message(run)
        token = await stored_leases(store).table.take(run.record.session, this_process(), run.lease_token)
        assert isinstance(token, int)
        assert token > run.lease_token
        await store.runs.put(replace(run.record, status="succeeded"))
        run.cancel()
        assert [event.event async for event in events]
        assert [r.status async for r in store.runs.of_session("s")] == ["succeeded"]


async def test_a_second_runner_gets_a_conflict_and_the_first_one_continues(reopen: OpenStore) -> None:
    model = SlowModel()
    async with reopen() as store, reopen() as other:
        services = fake_services(models=OneModel(model))
        run = runner_of(STREAM, services=services, store=store).start("s", {"query": "q"})
        events = await until_message(run)
        second = runner_of(STREAM, services=services, store=other)
        with pytest.raises(ConflictError, match="already running"):
            await play_run(second.start("s", {"query": "mine"}))
        model.is_released = True
        assert [event.event async for event in events][-1] == "workflow_finished"
        assert run.status == "succeeded"
        assert [r.status async for r in store.runs.of_session("s")] == ["succeeded"]


async def test_a_runner_that_loses_its_lease_stops(reopen_shared: OpenStore) -> None:
    model = SlowModel()
    async with reopen_shared() as store:
        services = fake_services(models=OneModel(model))
        run = runner_of(STREAM, services=services, store=store).start("s", {"query": "q"})
        events = await until_message(run)
        run._on_lease_lost()  # pyright: ignore[reportPrivateUsage] - as the lease calls it
        with pytest.raises(ConflictError, match="taken over this session"):
            [event async for event in events]
        assert [r.status async for r in store.runs.of_session("s")] == ["running"]


async def test_a_drained_run_continues_in_another_process(reopen: OpenStore) -> None:
    model = SlowModel()
    async with reopen() as store:
        services = fake_services(models=OneModel(model))
        runner = runner_of(STREAM, services=services, store=store)
        run = runner.start("s", {"query": "q"})
        events = await until_message(run)
        runner.drain()
        model.is_released = True
        [event async for event in events]
        assert run.status == "drained"
    async with reopen() as store:
        runner = runner_of(STREAM, services=fake_services(models=OneModel(model)), store=store)
        _, node_events = await play_run(runner.continue_("s"))
        assert node_events == ["+m", "-m"]
        assert (await runner.state("s"))["outputs"]["m"]["content"] == "the rest"


class SlowHttp:
    """An HTTP client whose answers wait for their release."""

    def __init__(self) -> None:
        self.count = 0
        self.released = asyncio.Event()

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.count += 1
        await self.released.wait()
        return HttpResponse(200, {}, "called", request.url)


async def test_an_interrupted_run_does_not_wait_for_its_model(reopen: OpenStore) -> None:
    model = SlowModel()
    services = fake_services(models=OneModel(model))
    async with reopen() as store:
        run = runner_of(STREAM, services=services, store=store).start("s", {"query": "q"})
        events = await until_message(run)
        run.interrupt()
        assert [event async for event in events] == []
        assert run.status == "drained"
        assert [record.status async for record in store.runs.of_session("s")] == ["running"]
        model.is_released = True
        answer, node_events = await play_run(runner_of(STREAM, services=services, store=store).continue_("s"))
        assert (answer, model.stream_count) == ("the rest", 2)
        assert "+a" not in node_events


async def test_an_interrupted_run_ends_calls_to_services_first(reopen: OpenStore) -> None:
    """A call may have an effect: it is not repeated, although a model beside it is."""
    model, http = SlowModel(), SlowHttp()
    call = node("Invoke", {"url": "http://shop.test/order", "method": "get", "variables": []}, ["b"])
    components = {**STREAM, "a": text(["g", "call"], "A"), "call": call, "b": text([], "{call@result}")}
    services = fake_services(models=OneModel(model), http=http)
    async with reopen() as store:
        run = runner_of(components, services=services, store=store).start("s", {"query": "q"})
        events = await until_message(run)
        while not http.count:
            await asyncio.sleep(0.01)
        run.interrupt()
        rest = asyncio.create_task(collect(events))
        await asyncio.sleep(0.1)
        assert not rest.done()
        http.released.set()
        await rest
        assert run.status == "drained"
        model.is_released = True
        runner = runner_of(components, services=services, store=store)
        await play_run(runner.continue_("s"))
        assert (http.count, model.stream_count) == (1, 2)
        assert (await runner.state("s"))["outputs"]["b"]["result"] == "called"


async def test_the_state_is_stored_before_the_last_event(reopen: OpenStore) -> None:
    async with reopen() as store:
        runner = runner_of({"t": text(["out"], "x"), **out("text")}, store=store)
        async for event in runner.start("s", {"query": "q"}):
            if event.event == "workflow_finished":
                break
        state = await runner.state("s")
        assert [state["turn"]["status"], len(state["history"])] == ["succeeded", 2]


async def test_a_failing_store_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_store("memory://", SystemClock()) as store:
        runner = runner_of(out("x"), store=store)
        monkeypatch.setattr(store.saver.inner, "aput", FailingPut(store.saver.inner.aput, 2))
        run = runner.start("s", {"query": "q"})
        with pytest.raises(CheckpointError):
            await play_run(run)
        records = [(r.status, r.reason, r.is_cancel_requested) async for r in store.runs.of_session("s")]
        assert (run.status, records) == ("failed", [("failed", "disk full", False)])


@pytest.mark.parametrize(
    ("component", "status", "last"),
    [
        (text(["out"], "x"), "succeeded", "workflow_finished"),
        (node("ListOperations", {"query": "sys.query"}, ["out"]), "failed", "node_finished"),
    ],
)
async def test_a_turn_continues_to_its_end_wherever_storing_it_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, component: Any, status: str, last: str
) -> None:
    """Before the last checkpoint, the closing node's result is stored: the node does not run again."""
    interruptions = 0
    for fails_at in range(2, 10):  # before the second checkpoint, no turn has begun
        async with open_store("memory://", SystemClock()) as store:
            runner = runner_of({"t": component, **out("text")}, store=store)
            put = FailingPut(store.saver.inner.aput, fails_at)
            monkeypatch.setattr(store.saver.inner, "aput", put)
            with suppress(CheckpointError):
                await play_run(runner.start("s", {"query": "q"}))
            if not put.has_failed:
                break  # the turn has fewer checkpoints
            interruptions += 1
            run = runner.continue_("s")
            events = [event.event async for event in run]
            assert (run.status, events[-1]) == (status, last), fails_at
    assert interruptions >= 3


@pytest.mark.parametrize("durability", ["effects", "steps"])
async def test_a_turn_whose_process_died_before_it_recorded_the_end_is_ended_by_continue(durability: Any) -> None:
    async with open_store("memory://", SystemClock(), durability=durability) as store:
        runner = runner_of({"t": text(["out"], "x"), **out("text")}, store=store)
        for query in ("first", "second"):
            run = runner.start("s", {"query": query})
            answer, _ = await play_run(run)
        ended = await store.runs.get(run.envelope.message_id)
        assert ended is not None
        await store.runs.put(replace(ended, status="running", checkpoint="", ended_ms=0))
        continued = runner.continue_("s")
        events = [event.event async for event in continued]
        assert (events, continued.answer) == (["message", "message_end", "workflow_finished"], answer)
        assert continued.status == "succeeded"
        newest = await newest_run(store, "s")
        assert newest is not None
        assert newest.status == "succeeded"
        with pytest.raises(ConflictError, match="no unfinished turn"):
            await play_run(runner.continue_("s"))


async def test_a_turn_of_which_nothing_was_stored_does_not_get_the_end_of_the_one_before() -> None:
    async with open_store("memory://", SystemClock()) as store:
        runner = runner_of({"t": text(["out"], "x"), **out("text")}, store=store)
        run = runner.start("s", {"query": "first"})
        await play_run(run)
        ended = await store.runs.get(run.envelope.message_id)
        assert ended is not None
        await store.runs.put(
            replace(ended, run_id="f" * 32, status="running", checkpoint="", started_ms=ended.started_ms + 1)
        )
        with pytest.raises(ConflictError, match="no unfinished turn"):
            await play_run(runner.continue_("s"))


async def test_without_a_store_a_turn_cannot_be_resumed_or_continued() -> None:
    runner = runner_of({"t": text()})
    for run in (runner.resume("s", {"a": 1}), runner.continue_("s")):
        with pytest.raises(ConflictError, match="turns are independent"):
            await play_run(run)


async def test_every_answer_to_a_form_in_a_loop_can_start_in_a_new_process(reopen: OpenStore) -> None:
    body = {"ask": form("w", tips="{lp@text}", downstream=["t"]), "t": text(["k"], "{lp@text}{ask@w}")}
    body["k"] = assign("lp@text", "t@result")
    components = {**loop(body, count=3, variables={"text": ""}), **out("{lp@text}")}
    tips: list[str] = []
    request: TurnRequest = {"query": "q"}
    for word in ("a", "b", "c", ""):
        async with reopen() as store:
            runner = runner_of(components, store=store)
            answer, _ = await play_run(runner.start("s", request))
            tips += [pause.tips for pause in await runner.pauses("s")]
            request = {"query": "", "inputs": {"w": {"value": word}}}
    assert (answer, tips) == ("abc", ["", "a", "ab"])


class ProcessDeath(BaseException):
    """Ends a run as the end of the process would: nothing handles it."""


class StepParams(ComponentParams):
    pass


class StepOutputs(ComponentOutputs):
    answer: Any = None


def worker_spec(log: list[str], *, fails_at: int = 0, runs_once: bool = False) -> Any:
    """Return a component with three steps. Step ``fails_at`` ends the process the first time."""

    @component("Worker", params=StepParams, outputs=StepOutputs, description="Works.", runs_once=runs_once)
    async def run(ctx: Any, params: StepParams) -> StepOutputs:
        results: list[Any] = []
        for number in (1, 2, 3):

            async def call(number: int = number) -> Any:
                log.append(f"call {number}")
                if log.count(f"call {fails_at}") == 1 and number == fails_at:
                    raise ProcessDeath
                return {"number": number}

            results.append(await ctx.step("call", {"n": number}, call))
        return StepOutputs(answer=results)

    return run


def worker_runner(spec: Any, store: Any) -> Any:
    catalog = load_catalog()
    catalog.add(spec)
    document = canvas({"w": node("Worker", {}, ["out"]), **out("{w@answer}")})
    return Runner(compile_canvas(document, catalog), fake_services(), store=store)


async def test_stored_steps_are_not_repeated(reopen: OpenStore) -> None:
    log: list[str] = []
    spec = worker_spec(log, fails_at=3)
    async with reopen() as store:
        with pytest.raises(ProcessDeath):
            await play_run(worker_runner(spec, store).start("s", {"query": "q"}))
    async with reopen() as store:
        answer, _ = await play_run(worker_runner(spec, store).continue_("s"))
    assert log == ["call 1", "call 2", "call 3", "call 3"]
    assert answer == '[{"number": 1}, {"number": 2}, {"number": 3}]'


@pytest.mark.parametrize(("decision", "calls"), [("run it again", 2), ("continue with an error", 1)])
async def test_a_node_that_runs_once_asks_before_it_runs_again(reopen: OpenStore, decision: str, calls: int) -> None:
    log: list[str] = []
    spec = worker_spec(log, fails_at=1, runs_once=True)
    async with reopen() as store:
        with pytest.raises(ProcessDeath):
            await play_run(worker_runner(spec, store).start("s", {"query": "q"}))
    async with reopen() as store:
        runner = worker_runner(spec, store)
        run = runner.continue_("s")
        await play_run(run)
        assert run.status == "waiting"
        run = runner.resume("s", {"decision": decision})
        await play_run(run)
        state = await runner.state("s")
    assert log.count("call 1") == calls
    assert run.status == ("succeeded" if calls == 2 else "failed")
    assert calls == 2 or "must not run twice" in (run.error or "")
    assert state["history"][0] == ["user", "q"]
    assert [role for role, _ in state["history"]].count("user") == state["globals"]["sys.conversation_turns"] == 1


async def test_steps_run_without_a_store() -> None:
    log: list[str] = []
    answer, _ = await play_run(worker_runner(worker_spec(log), None).start("s", {"query": "q"}))
    assert (answer.count("number"), log) == (3, ["call 1", "call 2", "call 3"])


async def test_a_turn_continues_after_a_restart_of_redis(tmp_path: Path) -> None:
    model = SlowModel()
    services = fake_services(models=OneModel(model))
    with redis_server(keep=tmp_path) as url:
        port = int(url.rpartition(":")[2])
        opening = open_store(url, SystemClock())
        store = await opening.__aenter__()
        run = runner_of(STREAM, services=services, store=store).start("s", {"query": "q"})
        events = await until_message(run)
    model.is_released = True
    async with asyncio.timeout(30):
        with pytest.raises(CheckpointError):
            [event async for event in events]
        with suppress(Exception):
            await opening.__aexit__(None, None, None)
    assert run.status == "failed"
    with redis_server(keep=tmp_path, port=port) as url:
        async with open_store(url, SystemClock()) as store, asyncio.timeout(25):
            runner = runner_of(STREAM, services=services, store=store)
            async with redis_client(url) as client:  # the lease could not be released; it would expire in 30 s
                (lease,) = await redis_keys(client, "*active-session*")
                await client.delete(lease)
            answer, node_events = await play_run(runner.continue_("s"))
    assert answer == "the rest"
    assert "+a" not in node_events


async def test_an_invalid_answer_leaves_the_pause_open() -> None:
    runner = runner_of({"ask": form("w", downstream=["out"]), **out("{ask@w}")})
    await play_run(runner.start("s", {"query": "q"}))
    (pause,) = await runner.pauses("s")
    for answer in ("text", [["w", "x"]], 5):
        with pytest.raises(AnswerError, match="map of its fields"):
            await play_run(runner.resume("s", {pause.id: answer}))
    assert (await play_run(runner.resume("s", {pause.id: {"w": "x"}})))[0] == "x"


async def test_a_run_can_be_drained_before_it_starts() -> None:
    runner = runner_of({"ask": form("w", downstream=["out"]), **out("{ask@w}")})
    await play_run(runner.start("s", {"query": "q"}))
    run = runner.resume("s", {"w": "x"})
    run.drain()
    assert [event async for event in run] == []
    assert run.status == "drained"
    assert (await play_run(runner.continue_("s")))[0] == "x"


async def test_growing_lists_take_linear_space(tmp_path: Path) -> None:
    """A list grows by an assigner in a Loop, as the history of a session, or in a region that is resumed."""

    async def bytes_of(store: Store) -> int:
        rows = await sqlite_file(store).rows(
            "SELECT (SELECT sum(length(text)) FROM blobs) + (SELECT sum(length(checkpoint)) FROM checkpoints)"
            " + (SELECT coalesce(sum(length(value)), 0) FROM writes)"
        )
        return int(rows[0][0])

    sizes: dict[str, list[int]] = {"assigner": [], "conversation": [], "iteration": []}
    row = "x" * 200
    variables: dict[str, Any] = {"rows": {"name": "rows", "type": "array<string>", "value": []}}
    for count in (16, 32, 64):
        body = {"t": text(["set"], row + "{lp@n}"), "set": assign("env.rows", "t@result", "append")}
        async with open_store(f"sqlite:///{tmp_path}/a{count}.db", SystemClock()) as store:
            canvas_ = {**loop(body, count=count), **out("done")}
            await play_run(runner_of(canvas_, store=store, variables=variables).start("s", {"query": "q"}))
            sizes["assigner"].append(await bytes_of(store))
        async with open_store(f"sqlite:///{tmp_path}/c{count}.db", SystemClock()) as store:
            runner = runner_of(out("{sys.query}" + row), store=store)
            for number in range(count // 2):
                await play_run(runner.start("s", {"query": f"{number}" + row}))
            sizes["conversation"].append(await bytes_of(store))
        async with open_store(f"sqlite:///{tmp_path}/r{count}.db", SystemClock()) as store:
            body = {"ask": form("w", downstream=["join"]), "join": text([], row + "{ask@w}")}
            canvas_ = {**iteration(body, {"r": "join@result"}), **out("done")}
            runner = runner_of(canvas_, store=store)
            await play_run(runner.start("s", {"query": "q", "inputs": {"items": {"value": list(range(count // 4))}}}))
            for number in range(count // 4):
                await play_run(runner.resume("s", {"w": f"{number}"}))
            sizes["iteration"].append(await bytes_of(store))
    for name, (small, middle, large) in sizes.items():
        assert large - middle < 2.6 * (middle - small), (name, small, middle, large)


async def test_a_result_is_stored_after_its_events_are_published(reopen: OpenStore) -> None:
    nodes = {"a": text(["m"], "A"), "m": node("Message", {"content": "{a@result}"})}
    async with reopen() as store, reopen() as other:
        runner = runner_of(nodes, store=store)
        run = runner.start("s", {"query": "q"})
        is_open = asyncio.Event()
        seen: list[str] = []

        async def read() -> None:
            async for event in run.with_records(is_open.wait):  # pyright: ignore[reportArgumentType]
                seen.append(event.event)

        reading = asyncio.create_task(read())
        async with asyncio.timeout(10):
            while "node_finished" not in seen:
                await asyncio.sleep(0.01)
        viewer = runner_of(nodes, store=other)
        before: list[Any] = []
        async with asyncio.timeout(10):
            while not before:  # the beginning is stored by a timer
                await asyncio.sleep(0.1)
                before = [step.next async for step in viewer.history("s")]
        is_open.set()
        await reading
        assert before[0] == ("begin",)
        assert (run.status, seen[-1]) == ("succeeded", "workflow_finished")
        assert (await anext(viewer.history("s"))).next == ()
