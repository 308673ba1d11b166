"""How often a turn asks its store, and what is stored together."""

from typing import Any

import pytest

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.base.ids import session_of_thread, thread_of_session
from ragflow_lg.runs.runner import Runner
from ragflow_lg.services.chat import Usage
from tests.fakes.canvas import node
from tests.fakes.regions import out, play_run, runner_of
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.stores import OpenStore

SESSION = session_of_thread(thread_of_session("s"))
MODEL = {"m": node("LLM", {"llm_id": "m", "prompts": "{sys.query}"}, ["out"]), **out("{m@content}")}


def _model_runner(store: Any, replies: int) -> Runner:
    services = fake_services(models=OneModel(ScriptedModel([Reply("hello", usage=Usage(1, 1, 2))] * replies)))
    return runner_of(MODEL, store=store, services=services)


async def test_the_end_of_a_turn_is_stored_before_its_last_event(reopen: OpenStore) -> None:
    async with reopen() as store, reopen() as other:
        run = _model_runner(store, 1).start("s", {"query": "q"})
        async for event in run:
            if event.event == "workflow_finished":
                records = [record async for record in other.runs.of_session("s")]
                assert [(record.status, record.checkpoint != "") for record in records] == [("succeeded", True)]
                assert await other.node_logs.get(run.record.run_id) is not None
                assert await other.leases.holder(SESSION) == ""


async def test_a_turn_whose_end_cannot_be_stored_has_failed(reopen: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    async with reopen() as store:
        runner = _model_runner(store, 1)
        run = runner.start("s", {"query": "q"})
        is_shown = False

        async def put(*arguments: Any) -> Any:
            if is_shown:
                raise CheckpointError("disk full")
            return await original(*arguments)

        async def play() -> None:
            nonlocal is_shown
            async for event in run:
                if event.event == "workflow_started":
                    await runner.state("s")  # what waits in memory is stored for a reader
                is_shown = is_shown or event.event == "message_end"
                assert event.event != "workflow_finished"

        original = store.saver.aput
        monkeypatch.setattr(store.saver, "aput", put)
        with pytest.raises(CheckpointError, match="disk full"):
            await play()
        records = [(record.status, record.reason) async for record in store.runs.of_session("s")]
        assert (run.status, records) == ("failed", [("failed", "disk full")])
        assert await store.leases.holder(SESSION) == ""
        monkeypatch.undo()
        continued = _model_runner(store, 0).continue_("s")
        await play_run(continued)
        assert continued.status == "succeeded"
        assert len((await _model_runner(store, 0).state("s"))["history"]) == 2
