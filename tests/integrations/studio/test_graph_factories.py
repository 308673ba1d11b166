import inspect
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import InputRefusedError
from ragflow_lg.integrations.studio.graph_factories import canvas_factory
from tests.fakes.canvas import canvas, node
from tests.harness.studio import ROOT


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
