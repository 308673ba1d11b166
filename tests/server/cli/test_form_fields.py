from typing import Any

import pytest

from ragflow_lg.base.errors import AnswerError
from ragflow_lg.dsl.forms import FormField
from ragflow_lg.runs.pauses import Pause
from ragflow_lg.server.cli.form_fields import check_fields, parse_value, prompt_fields, read_answers, read_fields
from tests.harness.rows import each_row


@each_row(
    ("kind", "text", "value"),
    [
        ("line", "5", "5"), ("integer", "5", 5), ("number", "1.5", 1.5), ("object", '{"a": 1}', {"a": 1}),
        ("boolean", "Yes", True), ("BOOLEAN", "0", False), ("options", "b", "b"),
    ],
)  # fmt: skip
def test_values_are_parsed_by_the_type_of_the_field(kind: str, text: str, value: Any) -> None:
    assert parse_value(FormField("f", "F", kind), text) == value


@each_row(
    ("kind", "text", "value"),
    [("integer", " 7.0 ", 7), ("number", "7", 7), ("boolean", "NO", False), ("number", "", None), ("options", "5", 5)],
)
def test_a_value_is_read_as_by_every_other_way_in(kind: str, text: str, value: object) -> None:
    assert parse_value(FormField("f", "F", kind, options=(5,)), text) == value


@pytest.mark.parametrize(("kind", "text"), [("integer", "x"), ("number", "nan"), ("object", "{"), ("boolean", "maybe")])
def test_values_of_another_type_are_refused(kind: str, text: str) -> None:
    with pytest.raises(AnswerError, match=r"'F' \(f\) should be"):
        parse_value(FormField("f", "F", kind), text)


def test_entries_are_name_and_value() -> None:
    form = [FormField("n", "N", "integer")]
    assert read_fields(form, ["n=3"]) == {"n": 3}
    assert read_fields([], ["other=a=b"]) == {"other": "a=b"}
    with pytest.raises(AnswerError, match="Did you mean number"):
        read_fields([FormField("number", "N", "integer")], ["nummer=3"])
    with pytest.raises(AnswerError, match=r"'N' \(n\) is required"):
        check_fields(form, {})
    check_fields(form, {"n": 1})
    for wrong in ("n", "=3"):
        with pytest.raises(AnswerError, match="NAME=VALUE"):
            read_fields(form, [wrong])


def test_a_terminal_is_prompted_until_the_answer_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    form = [
        FormField("n", "N", "integer"),
        FormField("o", "O", "options", options=("a", "b")),
        FormField("x", "X", "line", True),
    ]
    answers = iter(["three", "3", "c", "a"])

    def answer(*_: Any, **__: Any) -> str:
        return next(answers)

    monkeypatch.setattr("typer.prompt", answer)
    assert prompt_fields(form, {}) == {}
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    assert prompt_fields(form, {}) == {"n": 3, "o": "a"}
    assert prompt_fields(form, {"n": 1, "o": "b"}) == {"n": 1, "o": "b"}


def test_each_of_several_open_forms_can_be_answered() -> None:
    size, both = {"name": "Size", "type": "integer"}, {"name": "Note", "type": "line"}
    pauses = [Pause("1", "Form:A", "", {"size": size, "note": both}), Pause("2", "Form:B", "", {"note": both})]
    assert read_answers(pauses, ["Form:A@size=6"]) == {"1": {"size": 6}}
    assert read_answers(pauses, ["Form:B@note=a=b", "size=6"]) == {"1": {"size": 6}, "2": {"note": "a=b"}}
    assert read_answers(pauses, ["note=x"]) == {"1": {"note": "x"}, "2": {"note": "x"}}
    own = {"1": {"note": "x"}, "2": {"note": "own"}}
    assert read_answers(pauses, ["note=x", "Form:B@note=own"]) == own
    assert read_answers(pauses, ["Form:B@note=own", "note=x"]) == own
    assert read_answers([], ["note=x"]) == {}
    for wrong, reason in (
        ("Form:B@size=6", "no field 'Form:B@size'. Did you mean Form:A@size"),
        ("colour=red", "no field 'colour'"),
        ("Form:A@size=six", r"'Size' \(size\) should be a whole number, not 'six'"),
    ):
        with pytest.raises(AnswerError, match=reason):
            read_answers(pauses, [wrong])


def test_all_problems_are_reported_at_once() -> None:
    form = [FormField("n", "N", "integer"), FormField("b", "B", "boolean"), FormField("x", "X", "line")]
    with pytest.raises(AnswerError) as caught:
        read_fields(form, ["n=three", "b=perhaps", "y", "z=1"], needs_all=True)
    message = str(caught.value)
    for part in ("'N' (n) should be", "'B' (b) should be", "'y' should be NAME=VALUE", "field 'z'", "'X' (x) is req"):
        assert part in message
    assert message.count("(n)") == 1
    both = {"n": {"type": "integer"}, "b": {"type": "boolean"}}
    with pytest.raises(AnswerError, match=r"'n' should be.*'b' should be"):
        read_answers([Pause("1", "Form", "", both)], ["n=three", "b=perhaps"])


@pytest.mark.parametrize(
    ("value", "default"), [(None, ""), ("", ""), ([], ""), ({}, ""), (0, "0"), ({"a": 1}, '{"a": 1}'), (False, "false")]
)
def test_a_prompt_shows_the_default(value: Any, default: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {}

    def prompt(*_: Any, **more: Any) -> str:
        options.update(more)
        return "x"

    monkeypatch.setattr("typer.prompt", prompt)
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    prompt_fields([FormField("n", "N", "line", value=value)], {})
    assert options == {"default": default, "show_default": bool(default)}


@pytest.mark.parametrize(
    ("kind", "text"), [("number", "nan"), ("number", "inf"), ("object", '{"a": NaN}'), ("object", "[" * 100_000)]
)
def test_values_that_json_does_not_have_are_refused(kind: str, text: str) -> None:
    with pytest.raises(AnswerError, match="should be"):
        parse_value(FormField("x", "X", kind), text)
