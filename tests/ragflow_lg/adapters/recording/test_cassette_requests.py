from typing import Any

from ragflow_lg.adapters.recording.cassette_requests import (
    call_request,
    chat_request,
    differences,
    digest,
    http_request,
    is_same,
)
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.services.chat import ChatRequest, ToolSchema
from ragflow_lg.services.http import HttpRequest
from tests.harness.rows import each_row


def test_a_model_call_is_recorded_without_empty_values() -> None:
    image = "data:image/png;base64," + "A" * 1000
    request = ChatRequest("sys", ({"role": "user", "content": "q"},), images=(image,), stop=("x",))
    written = chat_request("m", request, Redactor())
    (image_hash,) = written.pop("images")
    assert written == {
        "model": "m",
        "system": "sys",
        "messages": [{"role": "user", "content": "q"}],
        "stop": ["x"],
    }
    assert image_hash.startswith("data:image/png;base64, 1022 characters, ")


def test_a_model_call_is_recorded_with_tools_and_schemas() -> None:
    tool = ToolSchema("look", "Look it up.", {"type": "object"})
    one = chat_request("m", ChatRequest("", (), tools=(tool,), schema={"type": "object"}), Redactor())
    assert one["tools"] == [{"name": "look", "description": "Look it up.", "parameters": {"type": "object"}}]
    assert digest(one) != digest(chat_request("m", ChatRequest("", (), tools=(tool,)), Redactor()))


def test_a_tool_call_is_recorded_without_its_secrets_and_the_redactor_learns_them() -> None:
    redactor = Redactor()
    written = call_request("s", "t", {"api_key": "qqqqqqqq1", "city": "Rome", "none": {}}, redactor)
    assert written == {"server": "s", "tool": "t", "arguments": {"api_key": "***", "city": "Rome", "none": {}}}
    assert redactor.text("qqqqqqqq1") == "***"


def test_an_http_request_is_recorded_without_its_secrets_and_the_redactor_learns_them() -> None:
    redactor = Redactor()
    request = HttpRequest(
        "POST",
        "https://user:pass-word-1@host/p?token=abcdefgh1",
        {"Authorization": "Bearer topsecret-123", "Accept": "text/plain"},
        {"api_key": "qqqqqqqq1", "page": "2"},
        json={"password": "wwwwwwww1", "n": 1},
        proxy="http://u:eeeeeeee1@proxy:80",
    )
    written = http_request(request, redactor)
    assert written == {
        "method": "POST",
        "url": "https://user:***@host/p?token=***",
        "headers": {"authorization": "***", "accept": "text/plain"},
        "query": {"api_key": "***", "page": "2"},
        "json": {"password": "***", "n": 1},
        "proxy": "http://u:***@proxy:80",
    }
    assert redactor.text("topsecret-123 qqqqqqqq1 wwwwwwww1 eeeeeeee1 pass-word-1") == "*** *** *** *** ***"


@each_row(
    ("recorded", "actual", "same"),
    [
        ("a", "a", True),
        ("a *** c", "a b c", True),
        ("a b c", "*** c", True),
        ("***", "", True),
        ("a***b***c", "aXbYc", True),
        ("a***a", "a", False),
        ("a *** c", "a b d", False),
        ({"a": ["***", 1]}, {"a": ["x", 1]}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1], [1, 2], False),
        (1, True, False),
        ("***", 5, True),
        (None, None, True),
    ],
)
def test_a_removed_secret_matches_any_text(recorded: Any, actual: Any, same: bool) -> None:
    assert is_same(recorded, actual) is same


def test_differences_are_counted_and_shown_where_they_begin() -> None:
    long = "x" * 500
    count, description = differences(
        {"a": f"{long}one", "b": {"c": 1}, "gone": [1]}, {"a": f"{long}two", "b": {"c": 2}, "more": {}, "z": 1}
    )
    assert count == 5
    assert f"a was '…{'x' * 20}one' and is '…{'x' * 20}two'" in description
    assert "b.c was '1' and is '2'" in description
    assert description.endswith("and 2 more")
    assert differences({"a": 1}, {"a": 1}) == (0, "")
