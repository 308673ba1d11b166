import pytest
from jsonschema import Draft202012Validator

from ragflow_lg.dsl.response_schema import response_schema


@pytest.mark.parametrize(
    ("field", "schema"),
    [
        ({"type": "line"}, {"type": "string"}),
        ({"type": "paragraph", "value": "a"}, {"type": "string", "default": "a"}),
        ({"type": "options", "options": ["a", {"value": "b"}, "a"]}, {"type": "string", "enum": ["a", "b"]}),
        ({"type": "options"}, {"type": "string"}),
        ({"type": "integer", "value": 3}, {"type": "integer", "default": 3}),
        ({"type": "integer", "value": True}, {"type": "integer"}),
        ({"type": "number", "value": "much"}, {"type": "number"}),
        ({"type": "boolean", "value": False}, {"type": "boolean", "default": False}),
        ({"type": "object"}, {"type": "object"}),
        ({"type": "something new"}, {"type": "string"}),
        ({}, {"type": "string"}),
    ],
)
def test_each_field_type_becomes_a_schema(field: dict[str, object], schema: dict[str, object]) -> None:
    form = response_schema({"f": {"name": "F", **field}})
    assert form["properties"]["f"] == {"title": "F", **schema}
    Draft202012Validator.check_schema(form)


def test_tips_required_fields_and_files() -> None:
    schema = response_schema({"a": {"optional": True, "type": "file"}, "b": 3}, "Tell us.")
    assert schema["description"] == "Tell us."
    assert schema["required"] == ["b"]
    assert schema["properties"]["a"]["type"] == "array"
    assert response_schema("nothing") == {"type": "object", "properties": {}, "required": []}
