from typing import Any

import pytest

from ragflow_lg.base.errors import RequestError
from ragflow_lg.component.plan import Plan
from ragflow_lg.engine.single_visit import input_form, visit_observed
from tests.fakes.canvas import canvas, node, plan_of
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.harness.rows import each_row

SIZE = {"size": {"name": "Size", "type": "integer", "optional": False}}
WRITER = {
    "llm_id": "m",
    "sys_prompt": "{env.tone}",
    "prompts": [{"role": "user", "content": "{sys.query} {begin@size}"}],
}


@pytest.fixture(scope="module")
def plan() -> Plan:
    components = {
        "begin": node("Begin", {"inputs": SIZE}, ["LLM:A", "Loop:L"]),
        "LLM:A": node("LLM", WRITER, ["Message:M"]),
        "Message:M": node("Message", {"content": ["{LLM:A@structured.x} {LLM:A@content}"]}),
        "Loop:L": node("Loop", {"loop_variables": [], "maximum_loop_count": 2}),
        "LoopItem:I": node("LoopItem", {}, ["ExitLoop:E"], parent_id="Loop:L"),
        "ExitLoop:E": node("ExitLoop", parent_id="Loop:L"),
    }
    graph = {"nodes": [{"id": "LLM:A", "data": {"name": "Writer"}}]}
    return plan_of(canvas(components, variables={"tone": {"type": "string", "value": "Be kind."}}, graph=graph))


def test_the_form_has_the_fields_of_begin_or_the_references_of_a_component(plan: Plan) -> None:
    assert input_form(plan, "begin") == SIZE
    form: Any = input_form(plan, "LLM:A")
    assert {name: (field["name"], field["value"]) for name, field in form.items()} == {
        "env.tone": ("env.tone", "Be kind."),
        "sys.query": ("sys.query", ""),
        "begin@size": ("begin@size", ""),
    }
    message_form: Any = input_form(plan, "Message:M")
    assert message_form["LLM:A@structured.x"]["name"] == "Writer@structured.x"


async def test_a_component_runs_with_the_submitted_inputs(plan: Plan) -> None:
    model = ScriptedModel([Reply("Hello")])
    services = fake_services(models=OneModel(model))
    outputs = (await visit_observed(plan, "LLM:A", {"sys.query": "Hi", "begin@size": 3}, services)).outputs
    ((_, request),) = model.requests
    assert (request.system, request.messages[-1]["content"]) == ("Be kind.", "Hi 3")
    assert (outputs["content"], outputs["_elapsed_time"]) == ("Hello", 0.0)
    inputs: dict[str, Any] = {"LLM:A@content": "b", "LLM:A@structured.x": "a"}
    assert (await visit_observed(plan, "Message:M", inputs, services)).outputs["content"] == "a b"
    assert (await visit_observed(plan, "begin", {"size": 4}, services)).outputs["size"] == 4


async def test_a_failure_is_an_output(plan: Plan) -> None:
    services = fake_services(models=OneModel(ScriptedModel([Reply(error="no model")])))
    outputs = (await visit_observed(plan, "writer", {"sys.query": "Hi"}, services)).outputs
    assert "no model" in str(outputs["_ERROR"])


@each_row(
    ("node_id", "inputs", "reason"),
    [
        ("LLM:B", {}, "no component 'LLM:B'. Did you mean LLM:A?"),
        ("Writr", {}, r"no component 'Writr'. Did you mean 'Writer' \(LLM:A\)"),
        ("Qqq", {}, "no component 'Qqq'. It has begin, LLM:A"),
        ("LLM:A", {"Nobody@x": 1}, "does not read 'Nobody@x'"),
        ("LLM:A", {"}{": 1}, "it reads env.tone"),
        ("Message:M", {"LLM:A@structured": "text", "LLM:A@structured.x": 1}, "does not read 'LLM:A@structured'"),
        ("Loop:L", {}, "cannot run alone"),
    ],
)
async def test_other_inputs_are_rejected(plan: Plan, node_id: str, inputs: dict[str, Any], reason: str) -> None:
    with pytest.raises(RequestError, match=reason.replace("{", "\\{")):
        await visit_observed(plan, node_id, inputs, fake_services())
