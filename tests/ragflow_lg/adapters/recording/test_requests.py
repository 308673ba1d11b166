from typing import Any

from ragflow_lg.adapters.recording.requests import differences, is_same, write_request
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.services.chat import ChatRequest, ToolSchema
from ragflow_lg.services.http import HttpRequest
from ragflow_lg.services.knowledge import Dataset, DatasetSearch
from tests.harness.rows import each_row, read_rows

TOOL = ToolSchema("look", "Look it up.", {"type": "object"})
MANUALS = Dataset("d", "Manuals")


@each_row(
    ("call", "arguments", "written"),
    [
        (
            "models.complete",
            {"llm_id": "m", "request": ChatRequest("sys", ({"role": "user", "content": "q"},), stop=("x",))},
            {"llm_id": "m", "system": "sys", "messages": [{"role": "user", "content": "q"}], "stop": ["x"]},
        ),
        (
            "models.complete",
            {"llm_id": "m", "request": ChatRequest("", (), tools=(TOOL,))},
            {"llm_id": "m", "system": "", "messages": [], "tools": [TOOL._asdict()]},
        ),
        (
            "servers.call",
            {"server": "s", "arguments": {"api_key": "qqqqqqqq1", "none": {}}, "headers": {"X-Team": "a"}},
            {"server": "s", "arguments": {"api_key": "***", "none": {}}},
        ),
        (
            "knowledge.search",
            {"search": DatasetSearch("rice", (MANUALS,), document_ids=())},
            {
                "question": "rice",
                "datasets": [{"id": "d", "name": "Manuals", "embedding_model": "", "tenant": ""}],
                "document_ids": [],
            },
        ),
    ],
)
def test_a_call_is_recorded_without_secrets_and_defaults(
    call: str, arguments: dict[str, Any], written: dict[str, Any]
) -> None:
    assert write_request(call, arguments, Redactor()) == written


def test_images_become_hashes() -> None:
    request = ChatRequest("", (), images=("data:image/png;base64," + "A" * 1000,))
    (image,) = write_request("models.complete", {"request": request}, Redactor())["images"]
    assert image.startswith("data:image/png;base64, 1022 characters, ")


def test_an_http_request_is_recorded_without_its_secrets_and_the_redactor_learns_them() -> None:
    redactor = Redactor()
    request = HttpRequest(
        "POST",
        "https://user:pass-word-1@host/p?token=abcdefgh1",
        {"Authorization": "Bearer topsecret-123", "Accept": "text/plain"},
        {"api_key": "qqqqqqqq1", "page": "2"},
        json={"password": "wwwwwwww1", "n": 1},
        proxy="http://u:eeeeeeee1@proxy:80",
        timeout_s=5.0,
    )
    assert write_request("http.send", {"request": request}, redactor) == {
        "method": "POST",
        "url": "https://user:***@host/p?token=***",
        "headers": {"Authorization": "***", "Accept": "text/plain"},
        "query": {"api_key": "***", "page": "2"},
        "json": {"password": "***", "n": 1},
        "proxy": "http://u:***@proxy:80",
    }
    assert redactor.text("topsecret-123 qqqqqqqq1 wwwwwwww1 eeeeeeee1 pass-word-1") == "*** *** *** *** ***"


@each_row(("recorded", "actual", "same"), read_rows("removed_secrets"))
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
