import pytest
from jsonschema import Draft202012Validator

from ragflow_lg.dsl_compiler.langgraph_app.schemas import CanvasConfig, input_schema, output_schema
from tests.dsl_compiler.langgraph_app.test_application import ECHO, application
from tests.fakes.canvas import canvas, node, plan_of

FORM = {
    "city": {"name": "City", "type": "line", "optional": False},
    "days": {"name": "Days", "type": "integer", "optional": True, "value": 3},
}


def test_a_form_comes_first_with_its_types() -> None:
    plan = plan_of(
        canvas(
            {"begin": node("Begin", {"mode": "task", "inputs": FORM}, ["m"]), "m": node("Message", {"content": ["x"]})}
        )
    )
    schema = input_schema(plan)
    assert next(iter(schema["properties"])) == "inputs"
    assert schema["properties"]["inputs"]["required"] == ["city"]
    assert schema["properties"]["inputs"]["properties"]["days"] == {"title": "Days", "type": "integer", "default": 3}


def test_a_turn_fits_what_is_said_of_it() -> None:
    plan = plan_of(ECHO)
    for schema in (input_schema(plan), output_schema(plan), CanvasConfig.model_json_schema()):
        Draft202012Validator.check_schema(schema)
    assert "required" not in input_schema(plan)["properties"]["inputs"]


@pytest.mark.parametrize("messages", [[{"role": "user", "content": "a"}]])
async def test_the_state_fits_its_schema(messages: object) -> None:
    state = await application(ECHO).ainvoke({"messages": messages})
    Draft202012Validator(output_schema(plan_of(ECHO))).validate(state)
