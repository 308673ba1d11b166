from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints import open_store
from ragflow_lg.checkpoints.steps.thread_tables import CheckpointKey
from tests.dsl_compiler.langgraph_app.test_application import NAME, SIZE, application, forms
from tests.stores import OpenStore, checkpoint_config, put_checkpoint, read_checkpoint, sqlite_file

THREAD = "55555555-5555-5555-5555-555555555555"


def config_of(name: str, thread: str = THREAD) -> Any:
    """Return the config of a run as LangGraph's server creates it."""
    return {"configurable": {"thread_id": thread}, "metadata": {"run_id": name}}


async def answer_forms(graph: Any, config: Any) -> str:
    snapshot = await graph.aget_state(config)
    answers = {"ask:name": {"name": "Ben"}, "ask:size": {"size": 4}}
    pauses = {pause.id: answers[pause.value["component_id"]] for task in snapshot.tasks for pause in task.interrupts}
    state = await graph.ainvoke(Command(resume=pauses), config)
    return state["messages"][-1]["content"]


async def test_a_deleted_run_leaves_the_previous_one_ready_to_continue(reopen: OpenStore) -> None:
    async with reopen() as store:
        graph = application(forms(name=NAME, size=SIZE), store.saver)
        await graph.ainvoke({"query": "first"}, config_of("1"))
        config = (await graph.aget_state(config_of("1"))).config
        assert await answer_forms(graph, config_of("2")) == "Ben 4"
        await store.saver.adelete_for_runs(["2", "none"])
        snapshot = await graph.aget_state(config_of("3"))
        assert snapshot.config["configurable"]["checkpoint_id"] == config["configurable"]["checkpoint_id"]
        assert set(snapshot.next) == {"ask.name", "ask.size"}
        assert await answer_forms(graph, config_of("3")) == "Ben 4"
        await store.saver.adelete_for_runs(["1", "3"])
        assert (await graph.aget_state(config_of("4"))).values == {}
        assert [checkpoint async for checkpoint in store.saver.alist(None)] == []


async def test_saver_operations_keeps_the_newest_checkpoint_which_can_continue(reopen: OpenStore) -> None:
    async with reopen() as store:
        graph = application(forms(name=NAME, size=SIZE), store.saver)
        await graph.ainvoke({"query": "x" * 3000}, config_of("1"))
        copy = config_of("2", "66666666-6666-6666-6666-666666666666")
        await store.saver.acopy_thread(THREAD, copy["configurable"]["thread_id"])
        await store.saver.aprune([THREAD])
        assert len([checkpoint async for checkpoint in store.saver.alist(config_of("1"))]) == 1
        assert await answer_forms(graph, config_of("1")) == "Ben 4"
        await store.saver.aprune([THREAD], strategy="delete_all")
        assert (await graph.aget_state(config_of("1"))).values == {}
        assert (await graph.aget_state(copy)).values["globals"]["sys.query"] == "x" * 3000
        assert await answer_forms(graph, copy) == "Ben 4"


async def test_a_failing_store_is_reported(tmp_path: Path) -> None:
    async with open_store(f"sqlite:///{tmp_path}/s.db") as store:
        await sqlite_file(store).read("DROP TABLE session_checkpoints")
        with pytest.raises(CheckpointError, match="cannot be read"):
            await store.saver.adelete_for_runs(["1"])
        with pytest.raises(CheckpointError, match="cannot be deleted"):
            await store.saver.erase([CheckpointKey("t", "", "c")])


async def test_the_writes_of_several_tasks_are_copied(reopen: OpenStore) -> None:
    """Redis lists the first writes of all tasks before their second ones."""
    async with reopen() as store:
        config = await put_checkpoint(store.saver, checkpoint_config("t"))
        for task in ("1", "2"):
            await store.saver.aput_writes(config, [("a", f"{task}a"), ("b", f"{task}b"), ("c", f"{task}c")], task)
        await store.saver.acopy_thread("t", "copy")
        copy = await read_checkpoint(store, "copy")
        expected = [(task, channel, task + channel) for task in "12" for channel in "abc"]
        assert sorted(copy.pending_writes or ()) == expected
