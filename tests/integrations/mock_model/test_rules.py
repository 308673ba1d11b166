import json
import time
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.integrations.mock_model.rules import CallSpan, Reply, Rules, TextTest, compile_pattern, load_rules
from tests.harness.rows import each_row


def write_rules(folder: Path, text: str, name: str = "rules.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_toml_and_json_are_equivalent(tmp_path: Path) -> None:
    toml = load_rules(write_rules(tmp_path, '[[rules]]\nwhen.user = "a"\nreplies = [{ text = "b" }]'))
    value = {"rules": [{"when": {"user": "a"}, "replies": [{"text": "b"}]}]}
    assert toml == load_rules(write_rules(tmp_path, json.dumps(value), "rules.json")) == Rules.model_validate(value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("rules = [\n}", "are not TOML: .*line 2, column"),
        ("", "rules: missing; add it"),
        ("rules = []", "rules: List should have at least 1 item"),
        ("[[rules]]\nreplies = []", "rule 1: replies: List should have at least 1 item"),
        ("[[rules]]\nname = 'x'", "rule 1: replies: missing; add it"),
        ("[[rules]]\nreplies = [{}]\n[[rules]]\nreplies = [{}, { txt = '' }]", "rule 2, reply 2: txt: .*mean 'text'"),
        ("[[rules]]\nwhen.use = 'x'\nreplies = [{}]", "rule 1: when.use: unknown field. Did you mean 'user'"),
        (
            "[[rules]]\nwhen.zz = 'x'\nreplies = [{}]",
            "rule 1: when.zz: .*Known fields: model, system, user, last, last_role",
        ),
        (
            "[[rules]]\nwhen.user.regex = '('\nreplies = [{}]",
            "rule 1: when.user.regex: '\\(' is not a valid regular",
        ),
        (
            "[[rules]]\nwhen.user = {}\nreplies = [{}]",
            "rule 1: when.user: should have at least one of is, contains",
        ),
        ("[[rules]]\nwhen.call.form = 2\nreplies = [{}]", "rule 1: when.call.form: .*mean 'from'"),
        ("[[rules]]\nwhen.last_role = 'robot'\nreplies = [{}]", "rule 1: when.last_role: Input should be 'system'"),
        ("[[rules]]\nreplies = [{ status = 99 }]", "rule 1, reply 1: status: .*greater than or equal to 200"),
        ("[[rules]]\nreplies = [{ status = 204 }]", "rule 1, reply 1: status 204 has no body"),
        ("[[rules]]\nreplies = [{ status = 500, text = 'x' }]", "rule 1, reply 1: a reply with an error status"),
        ("[[rules]]\nreplies = [{ text = 'x', json = 1 }]", "rule 1, reply 1: text and json are both set"),
        ("[[rules]]\nreplies = [{ error = 'x' }]", "rule 1, reply 1: error is set without an error status"),
        ("[[rules]]\nreplies = [{ calls = [{}] }]", "rule 1, reply 1, call 1: name: missing"),
        ("[[rules]]\nreplies = [{ cut_text = [3, 2] }]", "rule 1, reply 1: cut_text: should be increasing positions"),
        ("[[rules]]\nreplies = [{ delay_s = 1e9 }]", "rule 1, reply 1: delay_s: .*less than or equal to 3600"),
        (
            "[[rules]]\nat_end = 'x'\nreplies = [{}]",
            "rule 1: at_end: Input should be 'repeat', 'again', 'error' or 'next'",
        ),
    ],
)
def test_errors_name_rule_and_field(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        load_rules(write_rules(tmp_path, text))


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    for path, problem in (
        (tmp_path / "none.toml", "cannot be read: no such file"),
        (tmp_path, "cannot be read"),
        (write_rules(tmp_path, "[" * 100_000, "deep.json"), "nested too deeply"),
        (write_rules(tmp_path, "[1, 2]", "list.json"), "should be a valid dictionary"),
        (write_rules(tmp_path, "{", "broken.json"), "are not JSON: .*line 1 column 2"),
    ):
        with pytest.raises(SettingsError, match=problem):
            load_rules(path)
    (tmp_path / "latin.toml").write_bytes(b"\xe4")
    with pytest.raises(SettingsError, match="not UTF-8"):
        load_rules(tmp_path / "latin.toml")
    with (tmp_path / "huge.toml").open("wb") as file:
        file.truncate(9 * 1024 * 1024)
    with pytest.raises(SettingsError, match="larger than"):
        load_rules(tmp_path / "huge.toml")


@each_row(
    ("test", "text", "passes"),
    [
        ({"is": "a"}, "a", True),
        ({"is": "a"}, "ab", False),
        ({"contains": "b"}, "abc", True),
        ({"regex": "^a.c$"}, "abc", True),
        ({"regex": "^b"}, "abc", False),
        ({"contains": "b", "regex": "d"}, "abc", False),
    ],
)
def test_text_tests(test: dict[str, str], text: str, passes: bool) -> None:
    assert TextTest.model_validate(test).matches(text) is passes


@pytest.mark.parametrize(
    ("span", "numbers"),
    [({"from": 2, "to": 2}, [2]), ({"from": 3}, [3, 4, 5, 6]), ({"every": 3}, [3, 6]), ({"to": 2}, [1, 2])],
)
def test_call_spans(span: dict[str, Any], numbers: list[int]) -> None:
    assert [n for n in range(1, 7) if CallSpan.model_validate(span).has(n)] == numbers


def test_the_models_are_named_by_rules() -> None:
    rules: list[Any] = [{"when": {"model": name}, "replies": [{}]} for name in ("a", "b", "a")]
    assert Rules(rules=rules).model_names == ["a", "b"]
    assert Rules(rules=rules, models=["x"]).model_names == ["x"]
    assert Rules.model_validate({"rules": [{"replies": [{}]}]}).model_names == ["mock"]


def test_an_error_in_a_stream_may_have_a_message() -> None:
    assert Reply(error="it fell", error_after=1).error == "it fell"


def test_a_pattern_may_match_anywhere() -> None:
    assert compile_pattern("b+c").matches("abbc")
    assert not compile_pattern("^b").matches("ab")


@pytest.mark.parametrize(("text", "problem"), [("(", "not a valid regular"), ("a" * 1001, "longer than 1,000")])
def test_an_invalid_pattern_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        compile_pattern(text)


def test_a_search_that_takes_too_long_is_stopped() -> None:
    start_time = time.process_time()
    with pytest.raises(TimeoutError):
        compile_pattern(r"(\w+\s?)+(\w+\s?)+(\w+\s?)+$").matches("word " * 5000 + "!")
    assert time.process_time() - start_time < 5
