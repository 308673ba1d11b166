from __future__ import annotations

import json
from typing import Any

import pytest

from ragflow_lg.server.devtools.mock_llm.mock_llm_wire import Answer, answer_of, error_answer
from ragflow_lg.server.devtools.mock_llm.rules import Reply
from ragflow_lg.server.devtools.mock_llm.scripts import Asked

WHOLE = Asked("m", "s", "user text", "last text", "tool", (), False, False, 10)
STREAM = Asked("m", "s", "user text", "last text", "tool", (), True, True, 10)


def deltas(answer: Answer) -> list[dict[str, Any]]:
    """Give what each streamed piece adds."""
    assert answer.content_type == "text/event-stream"
    lines = [piece.decode().removeprefix("data: ").rstrip() for piece in answer.pieces]
    chunks = [json.loads(line) for line in lines if line != "[DONE]"]
    return [chunk["choices"][0]["delta"] for chunk in chunks if chunk.get("choices")]


def message(answer: Answer) -> dict[str, Any]:
    """Give the message of an answer that is not streamed."""
    return json.loads(answer.pieces[0])["choices"][0]["message"]


def test_a_text_is_cut_as_told() -> None:
    for cut, expected in ((4, ["abcd", "efgh", "ij"]), (0, ["abcdefghij"]), ([1, 9, 50], ["a", "bcdefghi", "j"])):
        got = deltas(answer_of(Reply(text="abcdefghij", cut_text=cut), STREAM, 1))
        assert [delta["content"] for delta in got[:-1]] == expected
        assert got[0]["role"] == "assistant"
    got = deltas(answer_of(Reply(text=["x", "yz"], reasoning=["r"]), STREAM, 1))
    assert got[:-1] == [{"role": "assistant", "reasoning_content": "r"}, {"content": "x"}, {"content": "yz"}]


def test_calls_are_streamed_in_fragments_of_names_and_arguments() -> None:
    reply = Reply.model_validate(
        {"calls": [{"name": "look", "arguments": {"q": "ü"}, "id": "c1"}], "cut_names": 2, "cut_arguments": [3]}
    )
    got = [delta["tool_calls"][0] for delta in deltas(answer_of(reply, STREAM, 1))[:-1]]
    assert got == [
        {"index": 0, "id": "c1", "type": "function", "function": {"name": "lo", "arguments": ""}},
        {"index": 0, "function": {"name": "ok", "arguments": '{"q'}},
        {"index": 0, "function": {"arguments": '": "ü"}'}},
    ]


def test_calls_whole() -> None:
    reply = Reply.model_validate({"calls": [{"name": "a"}, {"name": "b", "arguments": "no json", "has_index": False}]})
    whole = answer_of(reply, WHOLE, 7)
    assert [(c["id"], c["function"]["arguments"]) for c in message(whole)["tool_calls"]] == [
        ("call_mock_7_1", "{}"),
        ("call_mock_7_2", "no json"),
    ]
    assert json.loads(whole.pieces[0])["choices"][0]["finish_reason"] == "tool_calls"
    streamed = deltas(answer_of(reply, STREAM, 7))
    assert [delta["tool_calls"][0]["index"] for delta in streamed[:-1]] == [0, None]


def test_json_is_the_text() -> None:
    assert message(answer_of(Reply.model_validate({"json": {"a": [1]}}), WHOLE, 1))["content"] == '{"a": [1]}'


def test_parts_of_the_request_are_filled_in_once() -> None:
    asked = Asked("m", "", '${last} " {', "L", "user", (), False, False, 0)
    reply = Reply.model_validate(
        {
            "text": "${user}|${last}|${model}|${number}|${x}|${",
            "calls": [{"name": "n", "arguments": {"q": ["${user}"]}}],
        }
    )
    got = message(answer_of(reply, asked, 3))
    assert got["content"] == '${last} " {|L|m|3|${x}|${'
    assert json.loads(got["tool_calls"][0]["function"]["arguments"]) == {"q": ['${last} " {']}


def test_usage_is_told_where_it_is_asked_for() -> None:
    given = Reply.model_validate({"text": "a", "usage": {"prompt_tokens": 5, "completion_tokens": 2}})
    expected = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    assert json.loads(answer_of(given, WHOLE, 1).pieces[0])["usage"] == expected
    last = json.loads(answer_of(given, STREAM, 1).pieces[-2].decode().removeprefix("data: "))
    assert (last["usage"], last["choices"]) == (expected, [])
    silent = Asked("m", "s", "", "", "", (), True, False, 10)
    assert b"usage" not in b"".join(answer_of(given, silent, 1).pieces)
    assert b"usage" not in answer_of(Reply(text="a", usage=False), WHOLE, 1).pieces[0]
    estimated = json.loads(answer_of(Reply(text="abcde"), WHOLE, 1).pieces[0])["usage"]
    assert estimated == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


@pytest.mark.parametrize(("cut", "is_cut"), [("connection", True), ("quiet", False)])
def test_a_stream_is_cut(cut: Any, is_cut: bool) -> None:
    answer = answer_of(Reply(text=["a", "b", "c"], cut_after=2, cut=cut), STREAM, 1)
    assert (len(answer.pieces), answer.is_cut) == (2, is_cut)
    assert b'finish_reason": "stop' not in b"".join(answer.pieces)
    assert b"DONE" not in b"".join(answer.pieces)


@pytest.mark.parametrize(("cut", "is_cut"), [("connection", True), ("quiet", False)])
def test_a_whole_answer_is_cut_in_its_middle(cut: Any, is_cut: bool) -> None:
    answer = answer_of(Reply(text="a", cut_after=0, cut=cut), WHOLE, 1)
    assert answer.is_cut is is_cut
    assert (answer.length == len(answer.pieces[0])) is not is_cut


def test_an_error_in_the_stream() -> None:
    answer = answer_of(Reply(text=["a", "b"], error_after=1, error="it fell"), STREAM, 1)
    assert json.loads(answer.pieces[1].decode().removeprefix("data: "))["error"]["message"] == "it fell"
    assert len(answer.pieces) == 2


def test_errors_have_openais_form() -> None:
    answer = answer_of(Reply(status=429, retry_after=2.0, error="slow", headers={"X-A": "b"}), STREAM, 1)
    assert (answer.status, answer.headers) == (429, {"X-A": "b", "Retry-After": "2"})
    assert json.loads(answer.pieces[0])["error"] == {
        "message": "slow",
        "type": "rate_limit_error",
        "param": None,
        "code": "rate_limit_exceeded",
    }
    assert json.loads(error_answer(503, "x").pieces[0])["error"]["type"] == "server_error"
    assert answer_of(Reply(status=500, retry_after="Wed, 21 Oct 2026 07:28:00 GMT"), WHOLE, 1).headers["Retry-After"]


def test_garbage_goes_out_as_it_is() -> None:
    for asked, kind in ((WHOLE, "application/json"), (STREAM, "text/event-stream")):
        answer = answer_of(Reply(garbage="<html>"), asked, 1)
        assert (answer.pieces, answer.content_type, answer.length) == ((b"<html>",), kind, 6)
