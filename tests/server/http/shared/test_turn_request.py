from __future__ import annotations

from typing import Any

import pytest

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.tables import SessionRow
from ragflow_lg.server.http.shared.auth import ApiCaller
from ragflow_lg.server.http.shared.turn_request import build_turn_request, read_query

CALLER = ApiCaller("tenant", "key")
FILE: dict[str, Any] = {"id": "f"}


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        ({"query": "a", "question": "b"}, {"query": "a"}),
        ({"question": "b"}, {"query": "b"}),
        ({"query": 7, "inputs": {}, "files": []}, {"query": "7"}),
        ({"inputs": {"size": {"value": 42}}}, {"query": "", "inputs": {"size": {"value": 42}}}),
        ({"query": {"a": 1}, "files": [[FILE]]}, {"query": {"a": 1}, "files": [FILE]}),
        (
            {"files": [FILE], "chat_template_kwargs": {"k": 1}},
            {"query": "", "files": [FILE], "chat_template_kwargs": {"k": 1}},
        ),
    ],
)
def test_a_body_gives_a_turn(body: dict[str, Any], asked: dict[str, Any]) -> None:
    assert build_turn_request(CALLER, SessionRow(user_id=""), body) == {**asked, "user_id": "tenant"}
    assert build_turn_request(CALLER, SessionRow(user_id="ada"), body) == {**asked, "user_id": "ada"}
    assert read_query(body) == asked["query"]


@pytest.mark.parametrize("body", [{"inputs": [1]}, {"files": {"id": "f"}}])
def test_fields_of_a_wrong_type_are_refused(body: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="should be"):
        build_turn_request(CALLER, SessionRow(user_id="ada"), body)
