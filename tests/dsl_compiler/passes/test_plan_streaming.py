from typing import Any

from ragflow_lg.base.ids import NodeId
from tests.fakes.canvas import canvas, node, plan_of, switch, text
from tests.harness.rows import each_row

SCHEMA = {"outputs": {"structured": {"type": "object", "properties": {"a": {"type": "string"}}}}}


def is_streaming(llm: dict[str, Any], message: dict[str, Any], between: bool = False) -> bool:
    components = {"llm": node("LLM", llm, ["t" if between else "m"]), "m": node("Message", message)}
    if between:
        components["t"] = text(["m"])
    return plan_of(canvas(components, ["llm"])).nodes[NodeId("llm")].streams_to == ("m",)


def test_a_model_streams_into_the_message_that_names_it() -> None:
    assert is_streaming({}, {"content": ["> {llm@content}"]})


@each_row(
    ("llm", "message"),
    [
        ({}, {"content": ["nothing of it"]}),
        ({}, {"content": ["{llm@content.a}"]}),
        ({}, {"content": ["{llm@content}"], "stream": False}),
        ({}, {"content": ["{% if {llm@content} %}x{% endif %}"]}),
        (SCHEMA, {"content": ["{llm@content}"]}),
        ({"exception_method": "goto", "exception_goto": ["m"]}, {"content": ["{llm@content}"]}),
    ],
)
def test_a_model_does_not_stream(llm: dict[str, Any], message: dict[str, Any]) -> None:
    assert not is_streaming(llm, message)


def test_a_message_that_is_not_a_direct_successor_does_not_stream() -> None:
    assert not is_streaming({}, {"content": ["{llm@content}"]}, between=True)


def settled(components: dict[str, Any], first: list[str], **more: Any) -> set[str] | None:
    found = plan_of(canvas(components, first, **more)).messages[NodeId("m")].settled
    return None if found is None else {reference.text for reference in found}


MESSAGE = node("Message", {"content": ["{sys.query}{env.e}{t@result}{llm@content}"]})
ASSIGNER = node("VariableAssigner", {"variables": [{"variable": "env.e", "operator": "set", "parameter": "x"}]})
VARIABLES = {"variables": {"e": {"name": "e", "type": "string", "value": ""}}}


def test_nothing_changes_what_a_message_shows_if_its_model_runs_alone() -> None:
    components = {"t": text(["s"]), "s": switch(["t"], ["llm"]), "llm": node("LLM", {}, ["m"]), "m": MESSAGE}
    assert settled(components, ["t"], **VARIABLES) == {"sys.query", "env.e", "t@result"}


def test_nodes_beside_the_model_can_change_what_its_message_shows() -> None:
    components = {"t": text(), "a": {**ASSIGNER}, "llm": node("LLM", {}, ["m"]), "m": MESSAGE}
    assert settled(components, ["llm", "t"], **VARIABLES) == {"sys.query", "env.e"}
    assert settled(components, ["llm", "t", "a"], **VARIABLES) == {"sys.query"}
    before = {**components, "t": text(["llm"]), "a": {**ASSIGNER, "downstream": ["t"]}}
    assert settled(before, ["a"], **VARIABLES) == {"sys.query", "env.e", "t@result"}


def test_a_form_beside_the_model_keeps_its_message_from_being_shown_early() -> None:
    components = {"f": node("UserFillUp", {"inputs": {"x": {"type": "line"}}}), "llm": node("LLM", {}, ["m"])}
    assert settled({**components, "m": MESSAGE, "t": text()}, ["llm", "f"]) is None


def test_a_choice_that_depends_on_nodes_beside_the_model_is_not_made_early() -> None:
    message = node("Message", {"content": ["{llm@content}", "{t@result}{llm@content}"]})
    components = {"t": text(["m"]), "llm": node("LLM", {}, ["m"]), "m": message}
    assert settled(components, ["llm", "t"]) is None
