from typing import Any

import pytest

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.tables import SessionRow
from ragflow_lg.server.http.openai.openai_routes import ChatBody
from ragflow_lg.server.http.ragflow.agent_routes import AgentChange, TagsBody
from ragflow_lg.server.http.ragflow.completion_routes import CompletionBody, PlayBody
from ragflow_lg.server.http.ragflow.dataset_routes import Question
from ragflow_lg.server.http.ragflow.debug_routes import DebugBody
from ragflow_lg.server.http.shared.auth import ApiCaller
from ragflow_lg.server.http.shared.ragflow_routes import Pages
from ragflow_lg.server.http.shared.turn_sessions import build_turn_request
from tests.harness.rows import each_row

CALLER = ApiCaller("tenant")
FILE: dict[str, Any] = {"id": "f"}


def test_examples_are_valid() -> None:
    for model in (ChatBody, CompletionBody, PlayBody, AgentChange, TagsBody, DebugBody, Question):
        for example in model.model_json_schema()["examples"]:
            assert not model.model_validate(example).model_extra


@each_row(
    ("query", "page"),
    [
        ({}, (1, 30)),
        ({"page": "2", "page_size": "5"}, (2, 5)),
        ({"page": "0", "page_size": "0"}, (1, 30)),
        ({"page": "-1", "page_size": "x"}, (1, 30)),
        ({"page": "99999999999999999999"}, (1_000_000, 30)),
        ({"page": "٣"}, (1, 30)),
    ],
)
def test_invalid_pages_fall_back_to_the_defaults(query: dict[str, str], page: tuple[int, int]) -> None:
    assert Pages.model_validate(query).read(CALLER) == page


def test_large_pages_are_refused() -> None:
    with pytest.raises(RequestError, match="at most 100"):
        Pages(page_size="101").read(CALLER)  # pyright: ignore[reportArgumentType]


@each_row(
    ("fields", "expected"),
    [
        ({"query": "a", "question": "b"}, {"query": "a"}),
        ({"question": "b", "query": None}, {"query": "b"}),
        ({"query": 7, "inputs": {}, "files": []}, {"query": "7"}),
        ({"inputs": {"size": {"value": 42}}}, {"query": "", "inputs": {"size": {"value": 42}}}),
        ({"query": {"a": 1}, "files": [[FILE]]}, {"query": {"a": 1}, "files": [FILE]}),
        (
            {"files": [FILE], "chat_template_kwargs": {"k": 1}},
            {"query": "", "files": [FILE], "chat_template_kwargs": {"k": 1}},
        ),
    ],
)
def test_a_body_becomes_a_turn_request(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    body = CompletionBody.model_validate(fields)
    for user, shown in (("", "tenant"), ("ada", "ada")):
        request = build_turn_request(CALLER, SessionRow(user_id=user), body.query or body.question, body)
        assert request == {**expected, "user_id": shown}


@pytest.mark.parametrize("fields", [{"inputs": [1]}, {"files": {"id": "f"}}])
def test_fields_of_a_wrong_type_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="must be"):
        CompletionBody.model_validate(fields)
