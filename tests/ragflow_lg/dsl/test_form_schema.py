from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ragflow_lg.dsl.form_schema import field_type, form_schema, response_schema
from ragflow_lg.dsl.forms import FormField, form_problems

FORM: dict[str, Any] = {
    "size": {"name": "Size", "type": "integer"},
    "price": {"type": "number", "optional": True, "value": 2.5},
    "fast": {"type": "boolean"},
    "colour": {"type": "options", "options": ["red", {"label": "Blue", "value": "blue"}]},
    "shade": {"type": "options", "options": ["dark"], "optional": True},
    "papers": {"type": "file"},
    "more": {"type": "file", "optional": True},
    "note": {"type": "paragraph", "optional": True},
    "extra": {"type": "object", "optional": True},
}
FITS: dict[str, Any] = {"size": 4, "fast": True, "colour": "blue", "papers": [{"id": "f"}]}


def _matches(answer: Any) -> bool:
    validator: Any = Draft202012Validator(form_schema(FORM))
    return bool(validator.is_valid(answer))


def test_a_form_becomes_a_valid_schema() -> None:
    schema = form_schema(FORM)
    Draft202012Validator.check_schema(schema)
    assert schema["required"] == ["size", "fast", "colour", "papers"]
    assert schema["properties"]["size"] == {"type": "integer", "title": "Size"}
    assert schema["properties"]["price"] == {"type": ["number", "null"], "title": "price", "default": 2.5}
    assert schema["properties"]["colour"]["enum"] == ["red", "blue"]
    assert schema["properties"]["shade"]["enum"] == ["dark", None]
    assert _matches(FITS)


@pytest.mark.parametrize(
    "answer",
    [
        {**FITS, "size": "big"},
        {**FITS, "colour": "green"},
        {**FITS, "papers": []},
        {**FITS, "other": 1},
        {name: value for name, value in FITS.items() if name != "fast"},
    ],
)
def test_invalid_answers_do_not_match_the_schema(answer: dict[str, Any]) -> None:
    assert not _matches(answer)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            name: st.one_of(
                st.none(), st.integers(), st.floats(allow_nan=False), st.booleans(), st.text(), st.just(list[Any]())
            )
            | st.just(dict[str, Any]())
            | st.sampled_from(["red", "blue", "dark"])
            | st.just(["file"])
            for name in FORM
        },
    )
)
def test_every_answer_that_matches_is_accepted(answer: dict[str, Any]) -> None:
    full = {**FITS, **answer}
    if _matches(full):
        assert form_problems(FORM, full) == {}


def test_without_a_form_there_are_no_fields() -> None:
    assert form_schema(None)["properties"] == {}
    assert field_type(FormField("a", "A", "line")) == {"type": "string"}


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
