from __future__ import annotations

from typing import Any

import pytest

from ragflow_lg.adapters.chat.completion_request import answer_in_form, chunk_in_form


def answer(**message: Any) -> dict[str, Any]:
    return {"choices": [{"message": message}]}


def piece(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"delta": delta}]}


def called(**function: Any) -> list[dict[str, Any]]:
    return [{"id": "a", "function": function}]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "it is null or missing"),
        ([], "it is a list, not an object"),
        ({}, "it has no choices"),
        ({"choices": True}, "it has no choices"),
        ({"detail": "Not Found"}, "it has no choices; it says: Not Found"),
        ({"choices": [None]}, "its choice is null or missing"),
        ({"choices": [{}]}, "its message is null or missing"),
        ({"error": {"message": "boom"}, "choices": []}, "it is an error: boom"),
        ({"error": "boom"}, "it is an error: boom"),
        (answer(content=5), "its content is a number"),
        (answer(content={"a": 1}), "its content is an object"),
        (answer(content=[5]), "its content is a list of something else"),
        (answer(tool_calls=5), "its tool_calls are a number"),
        (answer(tool_calls=[5]), "a tool call is a number, not an object"),
        (answer(tool_calls=called(name=5)), "the name of a tool call is a number"),
    ],
)
def test_what_is_odd_is_said_in_a_word(value: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        answer_in_form(value)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "a piece of it is null or missing"),
        ("x", "a piece of it is a text"),
        ({"choices": 5}, "its choices are a number"),
        ({"choices": [{"delta": 5}]}, "its delta is a number"),
        (piece(content=False), "its content is true or false"),
        ({"error": {"code": 7}}, "it is an error: None"),
    ],
)
def test_what_is_odd_about_a_piece_is_said_too(value: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        chunk_in_form(value)


def test_harmless_departures_are_mended() -> None:
    calls = [{"id": 7, "index": "x", "function": {"name": None, "arguments": {"a": 1}}}, {"function": None}]
    value, found = answer_in_form({**answer(role="tool", content=None, refusal="no", tool_calls=calls), "usage": 5})
    assert value == {"choices": [{"message": {"role": "assistant", "content": "no", "refusal": "no"}}], "usage": None}
    assert found == [{"id": "7", "name": "", "args": '{"a": 1}'}, {"id": None, "name": "", "args": ""}]
    chunk = chunk_in_form({**piece(role=5, tool_calls=calls[:1]), "usage": {"prompt_tokens": "a", "total_tokens": 3}})
    function = {"name": "", "arguments": '{"a": 1}'}
    delta = {"tool_calls": [{"index": None, "id": "7", "type": "function", "function": function}]}
    assert chunk == {"choices": [{"delta": delta}], "usage": {"total_tokens": 3}}
    assert chunk_in_form({"choices": None})["choices"] == []
