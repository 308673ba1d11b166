"""The steps inside a node, whose results are stored."""

from typing import Any

import pytest

from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.decorator import component
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.runs.runner import Runner
from tests.fakes.canvas import canvas
from tests.fakes.regions import node, out, play_run
from tests.fakes.services import fake_services
from tests.stores import OpenStore


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
