import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler.langgraph_app.schemas import CanvasConfig, colour_of, input_schema, output_schema
from tests.dsl_compiler.langgraph_app.test_application import ECHO, application
from tests.fakes.canvas import canvas, node, plan_of

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
