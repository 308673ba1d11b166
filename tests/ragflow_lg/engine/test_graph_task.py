"""Stopping the graph of a run so that another process can continue the turn."""

import asyncio
from collections.abc import AsyncIterator

from ragflow_lg.runs.wire.wire_events import WireEvent
from ragflow_lg.services.http import HttpRequest, HttpResponse
from tests.fakes.regions import form, node, out, play_run, runner_of, text
from tests.fakes.services import OneModel, fake_services
from tests.fakes.slow_model import STREAM, SlowModel, until_message
from tests.stores import OpenStore


async def collect(events: AsyncIterator[WireEvent]) -> list[WireEvent]:
    return [event async for event in events]


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


async def test_a_run_can_be_drained_before_it_starts() -> None:
    runner = runner_of({"ask": form("w", downstream=["out"]), **out("{ask@w}")})
    await play_run(runner.start("s", {"query": "q"}))
    run = runner.resume("s", {"w": "x"})
    run.drain()
    assert [event async for event in run] == []
    assert run.status == "drained"
    assert (await play_run(runner.continue_("s")))[0] == "x"
