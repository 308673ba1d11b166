from typing import Any

import pytest
import typer

from ragflow_lg.dsl.forms import FormField
from ragflow_lg.runs.pauses import Pause
from ragflow_lg.server.cli.form_fields import ask_fields, check_fields, read_answers, read_fields, read_value


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("line", "5", "5"), ("integer", "5", 5), ("number", "1.5", 1.5), ("object", '{"a": 1}', {"a": 1}),
        ("boolean", "Yes", True), ("BOOLEAN", "0", False), ("options", "b", "b"),
    ],
)  # fmt: skip
def test_values_are_read_as_the_form_declares_them(kind: str, text: str, value: Any) -> None:
    assert read_value(FormField("f", "F", kind), text) == value


@pytest.mark.parametrize(("kind", "text"), [("integer", "x"), ("number", ""), ("object", "{"), ("boolean", "maybe")])
def test_others_are_refused(kind: str, text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"'F' \(f\) should be"):
        read_value(FormField("f", "F", kind), text)


def test_fields_are_name_and_value() -> None:
    form = [FormField("n", "N", "integer")]
    assert read_fields(form, ["n=3"]) == {"n": 3}
    assert read_fields([], ["other=a=b"]) == {"other": "a=b"}
    with pytest.raises(typer.BadParameter, match="Did you mean number"):
        read_fields([FormField("number", "N", "integer")], ["nummer=3"])
    with pytest.raises(typer.BadParameter, match=r"'N' \(n\) is required"):
        check_fields(form, {})
    check_fields(form, {"n": 1})
    for wrong in ("n", "=3"):
        with pytest.raises(typer.BadParameter, match="NAME=VALUE"):
            read_fields(form, [wrong])


def test_a_terminal_is_asked_until_the_answer_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    form = [
        FormField("n", "N", "integer"),
        FormField("o", "O", "options", options=("a", "b")),
        FormField("x", "X", "line", True),
    ]
    answers = iter(["three", "3", "c", "a"])
    monkeypatch.setattr("typer.prompt", lambda *_, **__: next(answers))
    assert ask_fields(form, {}) == {}
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    assert ask_fields(form, {}) == {"n": 3, "o": "a"}
    assert ask_fields(form, {"n": 1, "o": "b"}) == {"n": 1, "o": "b"}


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
        with pytest.raises(typer.BadParameter, match=reason):
            read_answers(pauses, [wrong])


def test_all_that_is_wrong_comes_at_once() -> None:
    form = [FormField("n", "N", "integer"), FormField("b", "B", "boolean"), FormField("x", "X", "line")]
    with pytest.raises(typer.BadParameter) as caught:
        read_fields(form, ["n=three", "b=perhaps", "y", "z=1"], needs_all=True)
    told = caught.value.message
    for part in ("'N' (n) should be", "'B' (b) should be", "'y' should be NAME=VALUE", "field 'z'", "'X' (x) is req"):
        assert part in told
    assert told.count("(n)") == 1
    both = {"n": {"type": "integer"}, "b": {"type": "boolean"}}
    with pytest.raises(typer.BadParameter, match=r"'n' should be.*'b' should be"):
        read_answers([Pause("1", "Form", "", both)], ["n=three", "b=perhaps"])


@pytest.mark.parametrize(
    ("value", "shown"), [(None, ""), ("", ""), ([], ""), ({}, ""), (0, "0"), ({"a": 1}, '{"a": 1}'), (False, "false")]
)
def test_a_prompt_shows_what_is_taken_if_nothing_is_typed(
    value: Any, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: dict[str, Any] = {}
    monkeypatch.setattr("typer.prompt", lambda *_, **more: said.update(more) or "x")
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    ask_fields([FormField("n", "N", "line", value=value)], {})
    assert said == {"default": shown, "show_default": bool(shown)}


@pytest.mark.parametrize(
    ("kind", "text"), [("number", "nan"), ("number", "inf"), ("object", '{"a": NaN}'), ("object", "[" * 100_000)]
)
def test_what_json_cannot_hold_is_refused(kind: str, text: str) -> None:
    with pytest.raises(typer.BadParameter, match="should be"):
        read_value(FormField("x", "X", kind), text)
