from __future__ import annotations

from typing import Any

import pytest

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.server.devtools.mock_llm.rules import Rules
from ragflow_lg.server.devtools.mock_llm.scripts import Script, read_asked


def script(*rules: dict[str, Any]) -> Script:
    return Script(Rules.model_validate({"rules": list(rules)}))


def body(*messages: tuple[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": r, "content": c} for r, c in messages or (("user", "q"),)], **more}


def said(script: Script, request: dict[str, Any]) -> Any:
    return script.choose(read_asked(request)).reply.text


@pytest.mark.parametrize(
    "when",
    [
        {"model": "m"},
        {"model": {"regex": "^m$"}},
        {"system": "kind"},
        {"user": "quest"},
        {"user": {"is": "a question"}},
        {"last": "found"},
        {"last_role": "tool"},
        {"tools": True},
        {"tools": "look"},
        {"stream": True},
        {"call": 1},
    ],
)
def test_each_condition_fits_and_does_not(when: dict[str, Any]) -> None:
    tools = [{"type": "function", "function": {"name": "look_up"}}]
    rules = script({"when": when, "replies": [{"text": "yes"}]}, {"replies": [{"text": "no"}]})
    messages = (("system", "Be kind."), ("user", "a question"), ("tool", "found"))
    fitting = body(*messages, tools=tools, stream=True)
    other = {**body(("user", "x")), "model": "mm"}
    assert said(rules, fitting) == "yes"
    assert said(rules, other) == "no"


def test_conditions_count_together_and_rules_in_order() -> None:
    rules = script(
        {"when": {"user": "a", "model": "n"}, "replies": [{"text": "1"}]},
        {"when": {"user": "a"}, "replies": [{"text": "2"}]},
        {"when": {"user": "a"}, "replies": [{"text": "3"}]},
    )
    assert said(rules, body(("user", "a"))) == "2"


@pytest.mark.parametrize(
    ("at_end", "expected"),
    [("repeat", "abbccc"), ("again", "abbcab"), ("next", "abbcxx")],
)
def test_replies_follow_each_other(at_end: str, expected: str) -> None:
    replies = [{"text": "a"}, {"text": "b", "times": 2}, {"text": "c"}]
    rules = script({"replies": replies, "at_end": at_end}, {"replies": [{"text": "x"}]})
    assert "".join(said(rules, body()) for _ in range(6)) == expected


def test_replies_that_are_used_up_can_be_an_error() -> None:
    rules = script({"replies": [{"text": "a"}], "at_end": "error"})
    assert said(rules, body()) == "a"
    with pytest.raises(ServiceError, match=r"Rule 1 has given all its replies \(1\)"):
        said(rules, body())


def test_calls_are_counted_by_the_rule_that_they_fit() -> None:
    rules = script(
        {"when": {"user": "a", "call": {"every": 2}}, "replies": [{"text": "second"}]}, {"replies": [{"text": "-"}]}
    )
    asked = ["a", "b", "a", "a", "b", "a"]
    assert [said(rules, body(("user", text))) for text in asked] == ["-", "-", "second", "-", "-", "second"]


def test_a_request_that_nothing_fits_is_described() -> None:
    with pytest.raises(ServiceError, match="No rule fits: model 'm', last message of user 'qqq"):
        said(script({"when": {"user": "a"}, "replies": [{}]}), body(("user", "q" * 500)))


def test_a_pattern_that_takes_too_long_names_its_rule() -> None:
    rules = script({"when": {"user": {"regex": r"(\w+\s?)+(\w+\s?)+(\w+\s?)+$"}}, "replies": [{}]})
    with pytest.raises(ServiceError, match="rule 1 takes too long"):
        said(rules, body(("user", "word " * 5000 + "!")))


def test_texts_in_parts_are_read() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}, {"text": "b"}]
    asked = read_asked(body(("developer", "sys"), ("user", parts), ("assistant", None)))
    assert (asked.system, asked.user, asked.last, asked.last_role, asked.chars) == ("sys", "ab", "", "assistant", 5)


@pytest.mark.parametrize(
    ("odd", "problem"),
    [
        ([], "JSON object"),
        ({}, "'model'"),
        ({"model": "m"}, "'messages'"),
        ({"model": "m", "messages": ["x"]}, "'messages'"),
    ],
)
def test_what_is_no_request(odd: Any, problem: str) -> None:
    with pytest.raises(ServiceError, match=problem):
        read_asked(odd)


def test_odd_tools_are_no_tools() -> None:
    assert read_asked(body(tools=[1, {"function": 2}, {"function": {"name": "a"}}])).tools == ("a",)
    assert read_asked(body(tools={"a": 1})).tools == ()
