import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

from ragflow_lg.runs.wire.wire_events import WireEvent, WireNodeStarted, WorkflowFinished
from ragflow_lg.services.chat import ChatAnswer, ChatRequest, Usage
from tests.fakes.canvas import node, text
from tests.fakes.regions import form, iteration, loop, out, play_run, runner_of
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.stores import OpenStore

USED = Usage(10, 5, 1)


def _llm(*downstream: str) -> dict[str, Any]:
    return node("LLM", {"llm_id": "m@Test", "prompts": [{"role": "user", "content": "p"}]}, downstream)


def _services(**last: Any) -> Any:
    return fake_services(models=OneModel(ScriptedModel([Reply("one", usage=USED), Reply("two", usage=USED, **last)])))


async def test_a_continued_run_counts_the_usage_of_all_processes(reopen: OpenStore) -> None:
    canvas = {"a": _llm("t"), "t": text(["b"], "{a@content}"), "b": _llm("out"), **out("{a@content} {b@content}")}
    async with reopen() as store:
        first = runner_of(canvas, services=_services(hangs=True), store=store).start("s", {"query": "q"})
        async with aclosing(cast("AsyncGenerator[WireEvent]", aiter(first))) as events:
            async for event in events:
                if isinstance(event, WireNodeStarted) and event.component_id == "b":
                    break
        runner = runner_of(canvas, services=_services(), store=store)
        progress = await runner.progress("s")
        assert (progress.running, progress.run_usage) == ({("", "b")}, USED)
        run = runner.continue_("s")
        *_, end = [event async for event in run]
        assert isinstance(end, WorkflowFinished)
        assert (run.usage, end.usage) == (Usage(20, 10, 2), Usage(20, 10, 2))


async def test_usage_from_before_a_pause_and_in_open_rounds_is_told_apart(reopen: OpenStore) -> None:
    canvas = {**loop({"ask": form("w", downstream=["a"]), "a": _llm()}, count=2), **out("end")}
    async with reopen() as store:
        runner = runner_of(canvas, services=_services(), store=store)
        await play_run(runner.start("s", {"query": "q"}))
        run = runner.resume("s", {"w": "1"})
        await play_run(run)
        progress = await runner.progress("s")
        assert (run.usage, progress.usage, progress.running) == (USED, USED, {("", "lp"), ("1", "ask")})
        run = runner.resume("s", {"w": "2"})
        await play_run(run)
        assert (run.usage, run.status) == (USED, "succeeded")
        assert (await runner.progress("s")).run_usage == USED
        await runner.fork("s", "twin")
        assert (await runner.progress("twin")).usage == Usage()


class _HangingForB(ScriptedModel):
    """A model that never answers a question that contains ``b``."""

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        if "b" in str(request.messages):
            await asyncio.Event().wait()
        return await super().complete(request)


async def test_the_usage_of_finished_parallel_rounds_is_counted_once(reopen: OpenStore) -> None:
    model = node("LLM", {"llm_id": "m@Test", "prompts": [{"role": "user", "content": "{ii@item}"}]})
    canvas = {**iteration({"l": model}, {"r": "l@content"}, items="env.items", max_concurrency=2), **out("{it@r}")}
    items = {"items": {"name": "items", "type": "array<string>", "value": ["a", "b"]}}
    services = fake_services(models=OneModel(_HangingForB([Reply("one", usage=USED)])))
    async with reopen() as store:
        run = runner_of(canvas, services=services, store=store, variables=items).start("s", {"query": "q"})
        async with asyncio.timeout(60), aclosing(cast("AsyncGenerator[WireEvent]", aiter(run))) as events:
            async for event in events:
                if event.event == "node_finished" and getattr(event, "component_id", "") == "l":
                    break
            await asyncio.sleep(0.2)  # the result of the round is stored after its event
        runner = runner_of(canvas, services=_services(), store=store, variables=items)
        assert (await runner.progress("s")).run_usage == USED
