import pytest

from ragflow_lg.base.errors import RunError
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.dsl_compiler import compile_canvas
from tests.fakes.canvas import CATALOG, canvas, node, switch, text
from tests.fakes.regions import answer_of, out
from tests.fakes.services import fake_services

CANVAS = compile_canvas(canvas({"m": node("Message", {"content": "hi {sys.query}"})}), CATALOG)


async def test_a_graph_without_services_says_what_it_needs() -> None:
    with pytest.raises(RunError, match="TurnContext"):
        await CANVAS.graph.ainvoke({"query": "q"})


async def test_as_a_library_events_go_through_the_stream_writer() -> None:
    context = TurnContext(fake_services())
    events = [e async for e in CANVAS.graph.astream({"query": "q"}, context=context, stream_mode="custom")]
    assert [type(e).__name__ for e in events] == [
        "TurnStarted",
        "NodeStarted",
        "NodeFinished",
        "NodeStarted",
        "MessagePiece",
        "MessagePiece",
        "NodeFinished",
        "TurnFinished",
    ]


async def test_files_that_cannot_be_read_stop_the_turn_before_it_begins() -> None:
    from ragflow_lg.adapters.local_files import InlineFiles

    context = TurnContext(fake_services(files=InlineFiles()))
    state = await CANVAS.graph.ainvoke({"query": "q", "files": [{"name": "a.pdf"}]}, context=context)
    assert state["outputs"] == {}
    assert state["turn"]["status"] == "failed"
    assert "a.pdf" in state["turn"]["error"][3]


async def test_a_target_that_the_compiler_left_out_is_left_out_when_it_is_chosen() -> None:
    components = {
        "sw": switch(["a", "gone"], ["b"]),
        "a": text(["out"], "A"),
        "b": text(["out"], "B"),
        **out("{a@result}"),
    }
    assert await answer_of(components) == "A"
