import json
import math
from typing import Any

from ragflow_lg.dsl.redacted_view import MAX_CHARS, RedactedView
from ragflow_lg.dsl.redaction import Redactor
from tests.harness.rows import each_row

SECRET = "s3cret-of-the-house"


def view(*secrets: str) -> RedactedView:
    return RedactedView(Redactor(secrets))


@each_row(
    ("value", "expected"),
    [
        (f"key={SECRET}!", "key=***!"),
        ({"a": [SECRET, 1, None, True]}, {"a": ["***", 1, None, True]}),
        ({SECRET: 1}, {"***": 1}),
        (
            {"password": "x", "token": 5, "Cookie": "", "keyword": "y"},
            {"password": "***", "token": "***", "Cookie": "", "keyword": "y"},
        ),
        ("header-token-1", "***"),
        ({"credentials": {"user": "u", "n": [1, None]}}, {"credentials": {"user": "***", "n": ["***", None]}}),
        ({"key": {"user": "u"}, "token": ["t", ""]}, {"key": {"user": "u"}, "token": ["***", ""]}),
        (math.nan, None),
        (10**400, "a number of 1329 bits"),
        ("a\ud800b", "a\ufffdb"),
        ((1, 2), [1, 2]),
        ({1: b"x"}, {"1": "b'x'"}),
    ],
)
def test_secrets_are_redacted_in_any_value(value: Any, expected: Any) -> None:
    redacted = view(SECRET, "Bearer header-token-1", "a", "")
    assert redacted.value(value) == expected
    json.dumps(redacted.value(value)).encode()


@each_row("before", range(MAX_CHARS - len(SECRET) - 1, MAX_CHARS + 2, 4))
def test_a_secret_at_the_cut_leaves_nothing(before: int) -> None:
    text_of_view = view(SECRET).text("." * before + SECRET + "." * 100)
    assert "s3c" not in text_of_view
    assert len(text_of_view) < MAX_CHARS + 50


@each_row("form", ['"password": "{}"', "https://u:{}@host", "password={}", "Bearer {}"])
def test_a_value_across_the_cut_leaves_nothing(form: str) -> None:
    text = "." * (MAX_CHARS - 20) + " " + form.format("s3cret" * 50) + "." * 100
    assert "s3c" not in view().text(text)


def test_redaction_pulls_nothing_in_from_after_the_cut() -> None:
    text = (SECRET + " ") * 3000
    assert set(view(SECRET).text(text).partition("…")[0].split()) == {"***"}


def test_deep_values_are_cut() -> None:
    value: Any = "end"
    for _ in range(5000):
        value = [value]
    assert "end" not in json.dumps(view().value(value))
