import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from langgraph.checkpoint.memory import InMemorySaver

from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler import compile_canvas
from ragflow_lg.dsl_compiler.langgraph_app.schemas import CanvasConfig, colour_of, input_schema, output_schema
from tests.dsl_compiler.langgraph_app.test_application import ECHO, application
from tests.fakes.canvas import CATALOG, canvas, node, plan_of, switch, text

CRASH = Path(__file__).parents[2] / "fixtures" / "crash"


def test_only_edges_that_depend_on_the_run_are_conditional() -> None:
    compiled = compile_canvas(canvas({"s": switch(["a"], ["b"]), "a": text(["c"]), "b": text(), "c": text()}), CATALOG)
    for graph in (compiled.graph, compiled.with_saver(InMemorySaver()).graph):
        edges = {(e.source, e.target): (e.conditional, e.data) for e in graph.get_graph().edges}
        assert edges["s", "a"] == (True, "Case 1")
        assert edges["s", "b"] == (True, "Else")
        assert edges["a", "c"] == (False, None)
        assert ("c", "__end__") in edges
        assert "__close__" not in graph.get_graph().nodes


def test_all_edges_of_a_large_canvas_are_drawn() -> None:
    ids = [f"n{i}" for i in range(400)]
    chain = {id_: text(ids[i + 1 : i + 2]) for i, id_ in enumerate(ids)}
    assert len(compile_canvas(canvas(chain), CATALOG).graph.get_graph().edges) == 402


def test_a_region_is_drawn_as_one_node_and_with_xray_as_its_body() -> None:
    document = json.loads((CRASH / "form_in_loop_in_iteration.json").read_text("utf-8"))
    graph: Any = compile_canvas(document, CATALOG).graph
    assert set(graph.get_graph().nodes) == {"__start__", "__end__", "begin", "cut", "it", "out"}
    assert "it:lp" in graph.get_graph(xray=1).nodes
    drawing = graph.get_graph(xray=True)
    assert {"it:ii", "it:lp:li", "it:lp:ask", "it:lp:t"} < set(drawing.nodes)
    edges = {(edge.source, edge.target) for edge in drawing.edges}
    assert {("cut", "it:ii"), ("it:ii", "it:lp:li"), ("it:lp:t", "out")} < edges
    assert [name for name, _ in graph.get_subgraphs(recurse=True)] == ["it", "it|lp"]


def test_a_notebook_shows_the_drawing_without_a_web_service() -> None:
    graph: Any = compile_canvas(canvas({"s": switch(["a"], ["b"]), "a": text(), "b": text()}), CATALOG).graph
    bundle = graph._repr_mimebundle_(include=None, exclude=None)
    assert set(bundle) == {"text/plain", "text/vnd.mermaid"}
    assert "Case 1" in bundle["text/vnd.mermaid"]


FORM = {
    "city": {"name": "City", "type": "line", "optional": False},
    "days": {"name": "Days", "type": "integer", "optional": True, "value": 3},
}


def test_a_form_is_the_first_property_with_the_types_of_its_fields() -> None:
    plan = plan_of(
        canvas(
            {"begin": node("Begin", {"mode": "task", "inputs": FORM}, ["m"]), "m": node("Message", {"content": ["x"]})}
        )
    )
    schema = input_schema(plan)
    assert next(iter(schema["properties"])) == "inputs"
    assert schema["properties"]["inputs"]["required"] == ["city"]
    assert schema["properties"]["inputs"]["properties"]["days"] == {"title": "Days", "type": "integer", "default": 3}


def test_the_schemas_are_valid_and_need_no_form() -> None:
    plan = plan_of(ECHO)
    for schema in (input_schema(plan), output_schema(plan), CanvasConfig.model_json_schema()):
        Draft202012Validator.check_schema(schema)
    assert "required" not in input_schema(plan)["properties"]["inputs"]


@pytest.mark.parametrize("messages", [[{"role": "user", "content": "a"}]])
async def test_the_state_of_a_turn_fits_its_schema(messages: object) -> None:
    state = await application(ECHO).ainvoke({"messages": messages})
    validator: Any = Draft202012Validator(output_schema(plan_of(ECHO)))
    validator.validate(state)


def test_every_kind_of_component_has_a_colour() -> None:
    colours = {spec.kind: colour_of(spec.kind) for spec in load_catalog()}
    assert len(colours) > 4
    assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in colours.values())
