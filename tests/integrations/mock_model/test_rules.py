import json
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.integrations.mock_model.rules import CallSpan, Rules, load_rules
from ragflow_lg.integrations.mock_model.scripts import Script, parse_request
from tests.harness.rows import each_row, read_rows


def write_rules(folder: Path, text: str, name: str = "rules.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_toml_and_json_are_equivalent(tmp_path: Path) -> None:
    toml = load_rules(write_rules(tmp_path, '[[rules]]\nwhen.user = "a"\nreplies = [{ text = "b" }]'))
    value = {"rules": [{"when": {"user": "a"}, "replies": [{"text": "b"}]}]}
    assert toml == load_rules(write_rules(tmp_path, json.dumps(value), "rules.json")) == Rules.model_validate(value)


@each_row(("text", "problem"), read_rows("rule_errors"))
def test_errors_name_rule_and_field(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        load_rules(write_rules(tmp_path, text))


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b"\xe4")
    with (tmp_path / "huge.toml").open("wb") as file:
        file.truncate(9 * 1024 * 1024)
    for path, problem in (
        (tmp_path / "none.toml", "cannot be read: no such file"),
        (tmp_path, "cannot be read"),
        (write_rules(tmp_path, "[" * 100_000, "deep.json"), "nested too deeply"),
        (write_rules(tmp_path, "[1, 2]", "list.json"), "should be a valid dictionary"),
        (write_rules(tmp_path, "{", "broken.json"), "is not JSON: .*line 1 column 2"),
        (tmp_path / "latin.toml", "not UTF-8"),
        (tmp_path / "huge.toml", "larger than"),
    ):
        with pytest.raises(SettingsError, match=problem):
            load_rules(path)


@each_row(
    ("span", "numbers"),
    [({"from": 2, "to": 2}, [2]), ({"from": 3}, [3, 4, 5, 6]), ({"every": 3}, [3, 6]), ({"to": 2}, [1, 2])],
)
def test_call_spans(span: dict[str, Any], numbers: list[int]) -> None:
    assert [n for n in range(1, 7) if CallSpan.model_validate(span).has(n)] == numbers


def script(*rules: dict[str, Any]) -> Script:
    return Script(Rules.model_validate({"rules": list(rules)}))


def body(*messages: tuple[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": r, "content": c} for r, c in messages or (("user", "q"),)], **more}


def reply_to(script: Script, request: dict[str, Any]) -> Any:
    return script.choose(parse_request(request)).reply.text


@each_row(
    "when",
    [
        {"model": "m"}, {"model": {"regex": "^m$"}}, {"system": "kind"}, {"user": "quest"}, {"last": "found"},
        {"user": {"is": "a question"}}, {"last_role": "tool"}, {"tools": True}, {"tools": "look"}, {"stream": True},
        {"call": 1},
    ],
)  # fmt: skip
def test_each_condition_matches_or_does_not(when: dict[str, Any]) -> None:
    tools = [{"type": "function", "function": {"name": "look_up"}}]
    rules = script({"when": when, "replies": [{"text": "yes"}]}, {"replies": [{"text": "no"}]})
    messages = (("system", "Be kind."), ("user", "a question"), ("tool", "found"))
    fitting = body(*messages, tools=tools, stream=True)
    other = {**body(("user", "x")), "model": "mm"}
    assert reply_to(rules, fitting) == "yes"
    assert reply_to(rules, other) == "no"


def test_all_conditions_must_hold_and_the_first_rule_wins() -> None:
    rules = script(
        {"when": {"user": "a", "model": "n"}, "replies": [{"text": "1"}]},
        {"when": {"user": "a"}, "replies": [{"text": "2"}]},
        {"when": {"user": "a"}, "replies": [{"text": "3"}]},
    )
    assert reply_to(rules, body(("user", "a"))) == "2"


@each_row(("at_end", "expected"), [("repeat", "abbccc"), ("again", "abbcab"), ("next", "abbcxx")])
def test_replies_follow_each_other(at_end: str, expected: str) -> None:
    replies = [{"text": "a"}, {"text": "b", "times": 2}, {"text": "c"}]
    rules = script({"replies": replies, "at_end": at_end}, {"replies": [{"text": "x"}]})
    assert "".join(reply_to(rules, body()) for _ in range(6)) == expected


def test_at_end_can_be_an_error() -> None:
    rules = script({"replies": [{"text": "a"}], "at_end": "error"})
    assert reply_to(rules, body()) == "a"
    with pytest.raises(ServiceError, match="Rule 1 has used all 1 replies"):
        reply_to(rules, body())


def test_calls_are_counted_for_each_rule() -> None:
    rules = script(
        {"when": {"user": "a", "call": {"every": 2}}, "replies": [{"text": "second"}]}, {"replies": [{"text": "-"}]}
    )
    texts = ["a", "b", "a", "a", "b", "a"]
    assert [reply_to(rules, body(("user", text))) for text in texts] == ["-", "-", "second", "-", "-", "second"]


def test_a_request_without_a_matching_rule_is_described() -> None:
    with pytest.raises(ServiceError, match="No rule matches: model 'm', last message of user 'qqq"):
        reply_to(script({"when": {"user": "a"}, "replies": [{}]}), body(("user", "q" * 500)))


def test_a_pattern_that_takes_too_long_names_its_rule() -> None:
    rules = script({"when": {"user": {"regex": r"(\w+\s?)+(\w+\s?)+(\w+\s?)+$"}}, "replies": [{}]})
    with pytest.raises(ServiceError, match="rule 1 takes too long"):
        reply_to(rules, body(("user", "word " * 5000 + "!")))


def test_text_parts_are_joined() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}, {"text": "b"}]
    request = parse_request(body(("developer", "sys"), ("user", parts), ("assistant", None)))
    found = (request.system, request.user, request.last, request.last_role, request.chars)
    assert found == ("sys", "ab", "", "assistant", 5)


@each_row(
    ("named", "called"),
    [
        ("execute_sql_1", "execute_sql_1"), ("execute_sql", "execute_sql_1"), ("ExeSQL", "execute_sql_1"),
        ("exesql", "execute_sql_1"), ("Wikipedia", "wikipedia_search_0"), ("Archive", "Archive_3"), ("Email", "Email"),
    ],
)  # fmt: skip
def test_a_call_can_name_a_component_without_its_number(named: str, called: str) -> None:
    names = ("wikipedia_search_0", "execute_sql_1", "execute_sql_2", "Archive_3")
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    rules = script({"replies": [{"calls": [{"name": named, "arguments": {"a": 1}}]}]})
    (call,) = rules.choose(parse_request(body(tools=tools))).reply.calls
    assert (call.name, call.arguments) == (called, {"a": 1})


def test_a_condition_can_name_a_component() -> None:
    rules = script({"when": {"tools": "ExeSQL"}, "replies": [{"text": "yes"}]}, {"replies": [{"text": "no"}]})
    for name, expected in (("execute_sql_4", "yes"), ("search_4", "no")):
        tools = [{"type": "function", "function": {"name": name}}]
        assert reply_to(rules, body(tools=tools)) == expected
