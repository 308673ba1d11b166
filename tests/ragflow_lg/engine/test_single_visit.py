from typing import Any

import pytest

from ragflow_lg.base.errors import RequestError
from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.plan import Plan
from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.engine.single_visit import input_form, visit_observed
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services

CANVAS: dict[str, Any] = {
    "components": {
        "begin": {
            "obj": {
                "component_name": "Begin",
                "params": {"inputs": {"size": {"name": "Size", "type": "integer", "optional": False}}},
            },
            "downstream": ["LLM:A", "Loop:L"],
        },
        "LLM:A": {
            "obj": {
                "component_name": "LLM",
                "params": {
                    "llm_id": "m",
                    "sys_prompt": "{env.tone}",
                    "prompts": [{"role": "user", "content": "{sys.query} {begin@size}"}],
                },
            },
            "downstream": ["Message:M"],
        },
        "Message:M": {
            "obj": {"component_name": "Message", "params": {"content": ["{LLM:A@structured.x} {LLM:A@content}"]}}
        },
        "Loop:L": {"obj": {"component_name": "Loop", "params": {"loop_variables": [], "maximum_loop_count": 2}}},
        "LoopItem:I": {
            "obj": {"component_name": "LoopItem", "params": {}},
            "parent_id": "Loop:L",
            "downstream": ["ExitLoop:E"],
        },
        "ExitLoop:E": {"obj": {"component_name": "ExitLoop", "params": {}}, "parent_id": "Loop:L"},
    },
    "globals": {"sys.query": "", "env.tone": ""},
    "variables": {"tone": {"type": "string", "value": "Be kind."}},
    "graph": {"nodes": [{"id": "LLM:A", "data": {"name": "Writer"}}]},
}


@pytest.fixture(scope="module")
def plan() -> Plan:
    plan, diagnostics = check_canvas(CANVAS, load_catalog())
    assert plan is not None, [d for d in diagnostics if d.severity == "error"]
    return plan


def test_the_form_has_the_fields_of_begin_or_the_references_of_a_component(plan: Plan) -> None:
    assert input_form(plan, "begin") == {"size": {"name": "Size", "type": "integer", "optional": False}}
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


@pytest.mark.parametrize(
    ("node", "inputs", "reason"),
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
async def test_other_inputs_are_rejected(plan: Plan, node: str, inputs: dict[str, Any], reason: str) -> None:
    with pytest.raises(RequestError, match=reason.replace("{", "\\{")):
        await visit_observed(plan, node, inputs, fake_services())
