from typing import Any

import pytest

from ragflow_lg.base.ids import NodeId
from tests.fakes.canvas import canvas, node, plan_of, text

SCHEMA = {"outputs": {"structured": {"type": "object", "properties": {"a": {"type": "string"}}}}}


def is_streaming(llm: dict[str, Any], message: dict[str, Any], between: bool = False) -> bool:
    components = {"llm": node("LLM", llm, ["t" if between else "m"]), "m": node("Message", message)}
    if between:
        components["t"] = text(["m"])
    return plan_of(canvas(components, ["llm"])).nodes[NodeId("llm")].streams_to == ("m",)


def test_a_model_streams_into_the_message_that_names_it() -> None:
    assert is_streaming({}, {"content": ["> {llm@content}"]})


@pytest.mark.parametrize(
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
