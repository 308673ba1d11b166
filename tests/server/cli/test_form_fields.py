from typing import Any

import pytest

from ragflow_lg.base.errors import AnswerError
from ragflow_lg.dsl.forms import FormField
from ragflow_lg.runs.pauses import Pause
from ragflow_lg.server.cli.form_fields import parse_value, prompt_fields, read_answers, read_fields
from tests.harness.rows import each_row


@each_row(
    ("kind", "text", "value"),
    [
        ("line", "5", "5"), ("integer", " 7.0 ", 7), ("number", "1.5", 1.5), ("object", '{"a": 1}', {"a": 1}),
        ("boolean", "NO", False), ("BOOLEAN", "1", True), ("number", "", None), ("options", "5", 5),
    ],
)  # fmt: skip
def test_a_value_is_read_as_by_every_other_way_in(kind: str, text: str, value: object) -> None:
    assert parse_value(FormField("f", "F", kind, options=(5,)), text) == value


@each_row(
    ("kind", "text"),
    [("integer", "x"), ("number", "nan"), ("object", '{"a": NaN}'), ("object", "[" * 100_000), ("boolean", "maybe")],
)
def test_values_of_another_type_are_refused(kind: str, text: str) -> None:
    with pytest.raises(AnswerError, match=r"'F' \(f\) should be"):
        parse_value(FormField("f", "F", kind), text)


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
