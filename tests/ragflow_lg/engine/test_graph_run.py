"""Running a graph with a version of LangGraph whose own loop is known, and with others."""

from importlib.metadata import version
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from ragflow_lg.engine.graph_run import KNOWN_VERSIONS, find_loop, play
from tests.ragflow_lg.engine.test_langgraph_loop import THREAD, diamond


def test_the_version_of_the_tests_is_known() -> None:
    assert version("langgraph") in KNOWN_VERSIONS
    assert find_loop() is not None


@pytest.mark.usefixtures("unknown_langgraph")
async def test_another_version_runs_graphs_with_its_public_methods() -> None:
    graph = diamond(checkpointer=InMemorySaver())
    assert find_loop() is None

    await play(graph, {"text": "x"}, THREAD, context=None, durability="sync")
    (pause,) = (await graph.aget_state(THREAD)).interrupts
    resumed: Any = await play(graph, Command(resume={pause.id: "!"}), THREAD, context=None, durability="sync")

    assert resumed["text"] == "xabc!"
