from typing import Any

import pytest

from ragflow_lg.adapters.system_services import InlineFiles
from ragflow_lg.base.errors import RunError
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.dsl_compiler import compile_canvas
from tests.fakes.canvas import CATALOG, canvas, node, switch, text
from tests.fakes.regions import answer_of, out
from tests.fakes.services import fake_services

GRAPH: Any = compile_canvas(canvas({"m": node("Message", {"content": "hi {sys.query}"})}), CATALOG).graph


async def test_a_graph_without_services_names_what_it_needs() -> None:
    with pytest.raises(RunError, match="TurnContext"):
        await GRAPH.ainvoke({"query": "q"})


async def test_unreadable_files_stop_the_turn_before_its_first_node() -> None:
    context = TurnContext(fake_services(files=InlineFiles()))
    state = await GRAPH.ainvoke({"query": "q", "files": [{"name": "a.pdf"}]}, context=context)
    assert state["outputs"] == {}
    assert state["turn"]["status"] == "failed"
    assert "a.pdf" in state["turn"]["error"][3]


async def test_a_target_that_the_compiler_omitted_is_not_chosen() -> None:
    components = {
        "sw": switch(["a", "gone"], ["b"]),
        "a": text(["out"], "A"),
        "b": text(["out"], "B"),
        **out("{a@result}"),
    }
    assert await answer_of(components) == "A"
