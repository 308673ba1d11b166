"""The private names that an unwatched run uses. A failure means that an upgrade of a library changes them."""

import contextlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.pregel._loop import AsyncPregelLoop, PregelLoop
from langgraph.runtime import Runtime
from langgraph.types import Command

from ragflow_lg.engine import langgraph_loop
from ragflow_lg.engine.graph_run import play
from ragflow_lg.engine.langgraph_runtime import CheapRuntime
from tests.ragflow_lg.engine.test_langgraph_loop import THREAD, diamond

REPLACED = {
    *("_graph_lifecycle_events", "_initial_checkpoint_config", "prev_checkpoint_config", "updated_channels"),
    *("_written_task_ids", "_stored_delta_writes", "_reapplied_task_ids"),
}
"""The attributes of a loop that have other values in an unwatched run."""


class _Guarded(set[str]):
    """A set that must not be read."""

    def add(self, element: str) -> None:
        """Do nothing."""

    def __contains__(self, element: object) -> bool:
        raise AssertionError

    def __iter__(self) -> Iterator[str]:
        raise AssertionError


async def test_an_exit_stack_has_only_the_callbacks_that_a_loop_replaces() -> None:
    called: list[int] = []
    assert vars(contextlib.AsyncExitStack()).keys() == {"_exit_callbacks"}
    stack: contextlib.AsyncExitStack = vars(langgraph_loop)["_Exits"]()
    async with stack:
        for number in range(3):
            stack.callback(called.append, number)
    assert called == [2, 1, 0]


def test_a_loop_has_the_names_that_are_replaced() -> None:
    assert PregelLoop.__annotations__.keys() >= REPLACED
    overridden = {"after_tick", "put_writes", "_put_checkpoint", "_suppress_interrupt", "aaccept_push", "tick"}
    overridden.add("_prepare_tasks_and_emit_checkpoint")
    assert overridden <= {*dir(AsyncPregelLoop)}


@pytest.mark.parametrize("durability", ["sync", "async"])
async def test_a_run_does_not_read_the_sets_that_are_shared(durability: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(langgraph_loop, "_UNREAD", _Guarded())
    graph = diamond(checkpointer=InMemorySaver())
    await play(graph, {"text": "x"}, THREAD, context=None, durability=durability)
    (pause,) = (await graph.aget_state(THREAD)).interrupts
    resumed: Any = await play(graph, Command(resume={pause.id: "!"}), THREAD, context=None, durability=durability)
    assert resumed["text"] == "xabc!"


def test_a_runtime_is_made_of_its_fields_and_copied_by_the_methods_that_are_replaced() -> None:
    assert is_dataclass(Runtime)
    assert {"context", "store", "control", "execution_info"} <= {field.name for field in fields(Runtime)}
    replaced = {name for name in vars(CheapRuntime) if not name.startswith("_")}
    assert replaced == {"merge", "override", "patch_execution_info"}
    assert replaced <= vars(Runtime).keys()
