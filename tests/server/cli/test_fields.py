from typing import Any

import pytest
import typer

from ragflow_lg.forms import FormField
from server.cli.fields import ask_fields, check_fields, read_fields, read_value


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("line", "5", "5"), ("integer", "5", 5), ("number", "1.5", 1.5), ("object", '{"a": 1}', {"a": 1}),
        ("boolean", "Yes", True), ("BOOLEAN", "0", False), ("options", "b", "b"),
    ],
)  # fmt: skip
def test_values_are_read_as_the_form_declares_them(kind: str, text: str, value: Any) -> None:
    assert read_value("f", kind, text) == value


@pytest.mark.parametrize(("kind", "text"), [("integer", "x"), ("number", ""), ("object", "{"), ("boolean", "maybe")])
def test_others_are_refused(kind: str, text: str) -> None:
    with pytest.raises(typer.BadParameter, match="f should be"):
        read_value("f", kind, text)


def test_fields_are_name_and_value() -> None:
    form = [FormField("n", "N", "integer")]
    assert read_fields(form, ["n=3"]) == {"n": 3}
    assert read_fields([], ["other=a=b"]) == {"other": "a=b"}
    with pytest.raises(typer.BadParameter, match="Did you mean number"):
        read_fields([FormField("number", "N", "integer")], ["nummer=3"])
    with pytest.raises(typer.BadParameter, match="n: 'N' is required"):
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
