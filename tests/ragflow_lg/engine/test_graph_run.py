"""Running a graph with a version of LangGraph whose own loop is known, and with others."""

import sys
from collections.abc import Generator
from importlib.metadata import version
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from ragflow_lg.engine import graph_run
from ragflow_lg.engine.graph_run import KNOWN_VERSIONS, find_loop, play
from tests.ragflow_lg.engine.test_langgraph_loop import THREAD, diamond


@pytest.fixture
def unknown_langgraph(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Install a version of LangGraph that nobody has tested, whose private names are others."""
    monkeypatch.setattr(graph_run, "KNOWN_VERSIONS", ("0.0.0",))
    monkeypatch.setitem(sys.modules, "ragflow_lg.engine.langgraph_loop", None)
    monkeypatch.delattr("ragflow_lg.engine.langgraph_loop")
    find_loop.cache_clear()
    yield
    find_loop.cache_clear()


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
