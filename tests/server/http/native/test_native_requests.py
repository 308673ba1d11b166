from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from ragflow_lg.server.http.native.native_requests import (
    ForkRequest,
    OpenSession,
    PinRequest,
    PruneRequest,
    PublishRequest,
    RerunRequest,
    ResumeRequest,
    RunRequest,
)
from ragflow_lg.server.http.native.native_tenant_routes import NewKey
from tests.harness.rows import each_row

PAUSE = "a" * 32


@each_row(
    ("model", "body"),
    [
        (RunRequest, {"query": 5}),
        (RunRequest, {"files": ["name"]}),
        (RunRequest, {"user_id": "x" * 256}),
        (RunRequest, {"files": [{"id": "f"}] * 101}),
        (RunRequest, {"stream": True}),
        (ResumeRequest, {"answers": {"F" * 32: {}}}),
        (ResumeRequest, {"answers": {PAUSE: 4}}),
        (RerunRequest, {}),
        (RerunRequest, {"node": ""}),
        (RerunRequest, {"node": "a", "round": -1}),
        (RerunRequest, {"node": "a", "round": 2**40}),
        (RerunRequest, {"node": "a", "round": True}),
        (PruneRequest, {"keep_turns": True}),
        (PruneRequest, {"keep_turns": 1, "keep_days": True}),
        (PruneRequest, {"keep_turns": 1, "dry_run": 1}),
        (ForkRequest, {"checkpoint": "*"}),
        (OpenSession, {"version": "x" * 33}),
        (PinRequest, {}),
        (PublishRequest, {"dsl": "{}"}),
        (PublishRequest, {"title": "x" * 256}),
    ],
)
def test_invalid_bodies_are_refused(model: type[BaseModel], body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        model.model_validate(body)


def test_nul_characters_are_removed() -> None:
    assert RunRequest(query="a\x00b", user_id="\x00").model_dump(exclude_defaults=True) == {"query": "ab"}
    assert RunRequest(query={"city": "Rome"}).query == {"city": "Rome"}
    assert ResumeRequest(answers={PAUSE: {"size": None}}).answers == {PAUSE: {"size": None}}


def test_null_is_the_default_of_an_optional_number() -> None:
    assert RerunRequest.model_validate({"node": "a", "round": None}).round is None
    assert NewKey.model_validate({"agents": ["a"], "expires_days": None}).expires_days is None
