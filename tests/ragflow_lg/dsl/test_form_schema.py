from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ragflow_lg.dsl.form_schema import field_type, form_schema
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
