from typing import Any

import pytest

from ragflow_lg.adapters.chat.answer_ends import end_reason, read_end
from ragflow_lg.adapters.chat.openai_messages import normalize_answer, normalize_chunk
from tests.harness.rows import each_row, read_rows


def answer(**message: Any) -> dict[str, Any]:
    return {"choices": [{"message": message}]}


def chunk(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"delta": delta}]}


def tool_calls(**function: Any) -> list[dict[str, Any]]:
    return [{"id": "a", "function": function}]


INVALID_ANSWERS: list[tuple[Any, str]] = [
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
    (answer(content=[5]), "its content is a list with items other than strings and objects"),
    (answer(tool_calls=5), "its tool_calls are a number"),
    (answer(tool_calls=[5]), "a tool call is a number, not an object"),
    (answer(tool_calls=tool_calls(name=5)), "the name of a tool call is a number"),
]


@each_row(("value", "message"), INVALID_ANSWERS)
def test_an_error_names_what_is_wrong_in_an_answer(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        normalize_answer(value)


def test_harmless_deviations_are_repaired() -> None:
    calls = [{"id": 7, "index": "x", "function": {"name": None, "arguments": {"a": 1}}}, {"function": None}]
    raw = {**answer(role="tool", content=None, refusal="no", tool_calls=calls), "usage": 5}
    value, normalized_calls = normalize_answer(raw)
    assert value == {
        "choices": [{"finish_reason": "refusal", "message": {"role": "assistant", "content": "no", "refusal": "no"}}],
        "usage": None,
    }
    assert normalized_calls == [{"id": "7", "name": "", "args": '{"a": 1}'}, {"id": None, "name": "", "args": ""}]
    raw_chunk = {**chunk(role=5, tool_calls=calls[:1]), "usage": {"prompt_tokens": "a", "total_tokens": 3}}
    function = {"name": "", "arguments": '{"a": 1}'}
    delta = {"tool_calls": [{"index": None, "id": "7", "type": "function", "function": function}]}
    assert normalize_chunk(raw_chunk) == {"choices": [{"delta": delta}], "usage": {"total_tokens": 3}}
    assert normalize_chunk({"choices": None})["choices"] == []


@each_row(("metadata", "end"), read_rows("ends_of_answers"))
def test_every_family_says_why_an_answer_ended(metadata: dict[str, object], end: str) -> None:
    assert read_end(metadata) == end
    assert bool(end_reason(metadata)) == bool(end)
