from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ragflow_lg.dsl.forms import (
    form_fields,
    form_problems,
    form_schema,
    parse_answers,
    read_value,
    response_schema,
    unwrap_submission,
)
from tests.harness.rows import each_row, read_rows

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


def field(type_name: str, **more: Any) -> dict[str, Any]:
    return {"f": {"name": "Field", "type": type_name, **more}}


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


DEEP = nested(3000)


@each_row(
    ("type_name", "value", "reason"),
    [
        ("integer", "three", "whole number"), ("boolean", {"a": DEEP}, "not a map"), ("line", None, "required"),
        ("file", [], "required"), ("integer", " ", "required"),
        ("multi", ["a", "c"], "a list, each entry one of a, b, not 'c'"),
    ],
)  # fmt: skip
def test_invalid_answers_are_reported_by_field(type_name: str, value: Any, reason: str) -> None:
    problems = form_problems(field(type_name, options=["a", "b"]), {"f": value})
    assert list(problems) == ["f"]
    assert problems["f"].startswith("'Field' (f) ")
    assert reason in problems["f"]


def test_missing_fields_are_reported_unless_optional() -> None:
    assert form_problems(field("line"), {}) == {"f": "'Field' (f) is required."}
    assert form_problems({"f": {"name": "f"}}, {}) == {"f": "'f' is required."}
    assert form_problems(field("line", optional=True), {}) == {}
    assert form_problems(field("integer", optional=True), {"f": None}) == {}
    assert form_problems({"odd": "text"}, {"odd": "x"}) == {}
    assert form_problems("no map", {}) == {}


def test_a_blank_field_that_is_optional_has_no_value() -> None:
    for type_name in ("integer", "number", "boolean", "object", "options", "multi"):
        declared = field(type_name, optional=True, options=["a"])
        assert form_problems(declared, {"f": " "}) == {}
        assert read_value(" ", type_name, ["a"]) is None
    assert read_value("", "options", ["", "a"]) == ""
    assert read_value(" ", "line") == " "


def test_a_deep_value_is_refused_without_being_shown() -> None:
    problem = form_problems(field("list", options=["a"]), {"f": [DEEP]})
    assert problem == {"f": "'Field' (f) should be a list, each entry one of a, not a list."}


def test_fields_and_values_are_read_leniently() -> None:
    (first,) = form_fields({"f": {"name": "", "options": [1], "value": 2, "optional": 1}})
    assert (first.label, first.type, first.options, first.value, first.is_optional) == ("f", "line", (1,), 2, True)
    assert list(form_fields(None)) == []
    assert unwrap_submission({"value": 1, "type": "integer"}, {}) == (1, "integer")
    assert unwrap_submission({"value": "a", "type": "file"}, {"type": "line"}) == ("a", "line")
    assert unwrap_submission({"a": 1}, {"type": "object"}) == ({"a": 1}, "object")
    assert read_value("[1", "object") == "[1"
    assert read_value("[1]", "object") == [1]
    assert read_value("[1]", "line") == "[1]"


@each_row(
    ("answer", "fields"),
    [({"inputs": {"f": 1}}, {"f": 1}), ({"f": 1}, {"f": 1}), ("text", {"f": "text"}), (None, {"f": None})],
)
def test_an_answer_may_be_written_in_several_ways(answer: Any, fields: dict[str, Any]) -> None:
    assert parse_answers(field("line"), answer) == fields
    assert parse_answers({**field("line"), "g": {}}, "text") == {}


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


@each_row(
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


ANSWERS = st.one_of(
    st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.text(),
    st.sampled_from(["red", "blue", "dark", ["file"], list[Any](), dict[str, Any]()]),
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(FORM, ANSWERS)))
def test_every_answer_that_matches_is_accepted(answer: dict[str, Any]) -> None:
    full = {**FITS, **answer}
    if _matches(full):
        assert form_problems(FORM, full) == {}


@each_row(("field", "schema"), read_rows("form_schemas"))
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
