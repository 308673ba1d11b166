from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.pruning import CheckpointKey
from tests.dsl_compiler.langgraph_app.test_application import NAME, SIZE, application, forms
from tests.stores import OpenStore

THREAD = "55555555-5555-5555-5555-555555555555"


def run(name: str, thread: str = THREAD) -> Any:
    """Give the config of a run, as LangGraph's server gives it."""
    return {"configurable": {"thread_id": thread}, "metadata": {"run_id": name}}


async def answered(graph: Any, config: Any) -> str:
    held = await graph.aget_state(config)
    answers = {"ask:name": {"name": "Ben"}, "ask:size": {"size": 4}}
    pauses = {pause.id: answers[pause.value["component_id"]] for task in held.tasks for pause in task.interrupts}
    state = await graph.ainvoke(Command(resume=pauses), config)
    return state["messages"][-1]["content"]


async def test_a_run_is_taken_back_and_the_one_before_goes_on(reopen: OpenStore) -> None:
    async with reopen() as store:
        graph = application(forms(name=NAME, size=SIZE), store.saver)
        await graph.ainvoke({"query": "first"}, run("1"))
        before = (await graph.aget_state(run("1"))).config
        assert await answered(graph, run("2")) == "Ben 4"
        await store.saver.adelete_for_runs(["2", "none"])
        held = await graph.aget_state(run("3"))
        assert held.config["configurable"]["checkpoint_id"] == before["configurable"]["checkpoint_id"]
        assert set(held.next) == {"ask.name", "ask.size"}
        assert await answered(graph, run("3")) == "Ben 4"
        await store.saver.adelete_for_runs(["1", "3"])
        assert (await graph.aget_state(run("4"))).values == {}
        assert [found async for found in store.saver.alist(None)] == []


async def test_only_the_newest_is_kept_and_goes_on(reopen: OpenStore) -> None:
    async with reopen() as store:
        graph = application(forms(name=NAME, size=SIZE), store.saver)
        await graph.ainvoke({"query": "x" * 3000}, run("1"))
        copy = run("2", "66666666-6666-6666-6666-666666666666")
        await store.saver.acopy_thread(THREAD, copy["configurable"]["thread_id"])
        await store.saver.aprune([THREAD])
        assert len([found async for found in store.saver.alist(run("1"))]) == 1
        assert await answered(graph, run("1")) == "Ben 4"
        await store.saver.aprune([THREAD], strategy="delete_all")
        assert (await graph.aget_state(run("1"))).values == {}
        assert (await graph.aget_state(copy)).values["globals"]["sys.query"] == "x" * 3000
        assert await answered(graph, copy) == "Ben 4"


async def test_a_store_that_fails_is_told(tmp_path: Path) -> None:
    async with open_store(f"sqlite:///{tmp_path}/s.db", SystemClock()) as store:
        inner: Any = store.saver.inner
        await inner._file.do(lambda: inner.conn.executescript("DROP TABLE writes; DROP TABLE checkpoints"))
        with pytest.raises(CheckpointError, match="cannot be read"):
            await store.saver.adelete_for_runs(["1"])
        with pytest.raises(CheckpointError, match="cannot be deleted"):
            await store.saver.erase([CheckpointKey("t", "", "c")])
