import asyncio
import inspect
import json
import os
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg import load_canvas
from ragflow_lg.base.errors import InputRefusedError
from ragflow_lg.integrations.memories.memory_layout import memory_namespace
from ragflow_lg.integrations.studio import graph_factories as factories
from ragflow_lg.integrations.studio.graph_factories import canvas_factory, open_memories
from tests.fakes.canvas import canvas, node
from tests.harness.studio import ROOT
from tests.integrations.memories.test_memory_routes import REMEMBERS, start, talk


async def test_a_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    shutil.copy(ROOT / "examples" / "loop.json", file)
    factory = canvas_factory(file, model="demo")
    assert len(inspect.signature(factory).parameters) == 1, "Aegra would call it only once"
    first: Any = await factory()  # LangGraph's `ainvoke` is only partially typed
    assert await factory() is first
    assert (await first.ainvoke({"query": "3"}))["turn"]["status"] == "succeeded"
    shutil.copy(ROOT / "examples" / "order_form.json", file)
    os.utime(file, ns=(1, 1))
    assert "UserFillUp.Shirt" in (await factory()).get_graph().nodes


async def test_a_canvas_that_cannot_run_has_a_graph(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    servers: list[Any] = [{"mcp_id": "unknown", "tools": {"find": {}}}]
    file.write_text(json.dumps(canvas({"c": node("Agent", {"llm_id": "m@T", "mcp": servers})})))
    graph: Any = await canvas_factory(file)()
    assert "c" in graph.get_graph().nodes
    with pytest.raises(InputRefusedError, match="mcp-server-unknown"):
        await graph.ainvoke({"query": "q"})


async def test_an_invalid_canvas_is_refused_with_its_error(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    with pytest.raises(InputRefusedError, match="No such file"):
        await canvas_factory(file)()
    file.write_text("{")
    with pytest.raises(InputRefusedError, match="json-invalid"):
        await canvas_factory(file)()


@pytest.fixture(autouse=True)
def _settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:  # pyright: ignore[reportUnusedFunction] - pytest uses it
    """Let everything outside the server read settings with the server's memory and database."""
    file = tmp_path / "ragflow-lg.toml"
    file.write_text(f'checkpoints = "sqlite:///{tmp_path}/memories.db"\n[memories.notes]\ntypes = ["raw"]\n')
    monkeypatch.setenv("RAGFLOW_LG_SETTINGS", str(file))
    factories._settings.cache_clear()  # pyright: ignore[reportPrivateUsage] - the settings change
    yield
    factories._settings.cache_clear()  # pyright: ignore[reportPrivateUsage] - the settings change


async def answer(graph: Any, query: str, user: str) -> str:
    state = await graph.ainvoke({"query": query, "user_id": user})
    return state["messages"][-1]["content"]


async def test_all_entries_share_the_memory_of_the_server(tmp_path: Path) -> None:
    canvas = tmp_path / "canvas.json"
    canvas.write_text(json.dumps(REMEMBERS))
    studio, library = await canvas_factory(canvas)(), load_canvas(canvas)
    async with start(tmp_path) as (server, _):
        agent = await server.agent(REMEMBERS)
        await talk(server, agent, "my tea is green", "anna")
        for graph in (studio, library):
            assert "my tea is green" in await answer(graph, "my tea?", "anna")
            assert await answer(graph, "my tea?", f"stranger to {id(graph)}") == "nothing"
        await answer(studio, "my hat is yellow", "anna")
        async with asyncio.timeout(10):  # an exchange is indexed after its turn
            while "my hat is yellow" not in await talk(server, agent, "my hat?", "anna"):
                await asyncio.sleep(0.05)


async def test_the_store_of_langgraphs_server_contains_the_memories(tmp_path: Path) -> None:
    async with start(tmp_path) as (server, _):
        await talk(server, await server.agent(REMEMBERS), "my tea is green", "anna")
    async with open_memories() as store:
        assert await store.alist_namespaces() == [memory_namespace("notes", "default", "anna")]
        (entry,) = await store.asearch(("memories",))
        assert entry.value["content"].startswith("User: my tea is green")
