from typing import Any

import pytest

from ragflow_lg.dsl.forms import form_fields, form_problems, parse_answers, read_value, unwrap_submission


def field(type_name: str, **more: Any) -> dict[str, Any]:
    return {"f": {"name": "Field", "type": type_name, **more}}


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


DEEP = nested(3000)


@pytest.mark.parametrize(
    ("type_name", "value"),
    [
        ("line", ""), ("line", "x"), ("line", 5), ("paragraph", "a\nb"), ("integer", 3), ("integer", "3"),
        ("integer", 3.0),
        ("integer", ""), ("number", "1.5"), ("boolean", False), ("boolean", "true"), ("boolean", "no"),
        ("boolean", 1),
        ("object", {"a": 1}), ("object", '{"a": 1}'), ("object", ""), ("file", [{"id": "1"}]), ("options", "b"),
        ("multi", ["x"]),
        ("unknown type", object()),
    ],
)  # fmt: skip
def test_valid_answers_have_no_problems(type_name: str, value: Any) -> None:
    declared = field(type_name, options=["a", "b"])
    assert form_problems(declared, {"f": value}) == {}
    assert form_problems(declared, {"f": {"value": value, "type": type_name}}) == {}


@pytest.mark.parametrize(
    ("type_name", "value", "reason"),
    [
        ("integer", "three", "whole number"), ("integer", 1.5, "whole number"), ("integer", True, "whole number"),
        ("integer", [], "whole number"), ("number", "x", "a number"),
        ("number", "nan", "a number"), ("number", float("inf"), "a number"), ("boolean", "maybe", "true or false"),
        ("object", "{", "JSON object"), ("object", 5, "JSON object"), ("options", "c", "one of a, b"),
        ("line", None, "required"),
        ("number", DEEP, "not a list"), ("boolean", {"a": DEEP}, "not a map"),
        ("file", [], "required"), ("file", "", "required"),
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


def test_options_may_be_maps() -> None:
    declared = field("options", options=[{"label": "A", "value": "a"}, {"label": "B"}])
    assert form_problems(declared, {"f": "a"}) == {}
    assert form_problems(declared, {"f": "B"}) == {}
    assert form_problems(declared, {"f": "A"}) != {}


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


@pytest.mark.parametrize(
    ("answer", "fields"),
    [({"inputs": {"f": 1}}, {"f": 1}), ({"f": 1}, {"f": 1}), ("text", {"f": "text"}), (None, {"f": None})],
)
def test_an_answer_may_be_written_in_several_ways(answer: Any, fields: dict[str, Any]) -> None:
    assert parse_answers(field("line"), answer) == fields
    assert parse_answers({**field("line"), "g": {}}, "text") == {}


def test_a_whole_number_may_have_any_length() -> None:
    declared = {"i": {"name": "I", "type": "integer"}}
    assert form_problems(declared, {"i": 10**400}) == {}
