import json
from typing import Any

import pytest

from ragflow_lg.adapters.ragflow_api.remote_agents import RemoteAgent
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.server.migration.agent_files import build_agent_file, find_lost_secrets, restore_secrets


def canvas(**params: Any) -> dict[str, Any]:
    return {"components": {"begin": {"obj": {"component_name": "Begin", "params": params}, "downstream": []}}}


def stored(dsl: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    file = build_agent_file(RemoteAgent("a1", "A", dsl))
    return json.loads(file.text)["dsl"]["components"]["begin"]["obj"]["params"], file.blanked


@pytest.mark.parametrize(
    ("params", "kept"),
    [
        ({"api_key": "abc"}, {"api_key": ""}),
        ({"password": "hunter2"}, {"password": ""}),
        ({"credentials": {"user": "u", "secret": {"x": "y"}}}, {"credentials": {"user": "", "secret": {"x": ""}}}),
        ({"headers": '{"Authorization": "Bearer abcdef0123456789"}'}, {"headers": '{"Authorization": "***"}'}),
        ({"url": "https://u:hunter22@x.example/"}, {"url": "https://u:***@x.example/"}),
        ({"tools": [{"params": {"api_key": "abc"}}]}, {"tools": [{"params": {"api_key": ""}}]}),
    ],
)
def test_keys_are_left_out_and_put_back(params: dict[str, Any], kept: dict[str, Any]) -> None:
    here, blanked = stored(canvas(**params))
    assert here == kept
    assert len(blanked) >= 1
    assert all(place.startswith("begin: ") for place in blanked)
    assert restore_secrets(canvas(**here), canvas(**params)) == canvas(**params)


@pytest.mark.parametrize(
    "params",
    [
        {"api_key": "{env.key}"},
        {"updates": [{"key": "name", "value": "x"}]},
        {"max_tokens": 7, "token": "string"},
        {"prompt": "Say the password policy."},
    ],
)
def test_other_values_stay(params: dict[str, Any]) -> None:
    assert stored(canvas(**params)) == (params, ())


def test_a_key_that_was_changed_here_is_sent() -> None:
    assert restore_secrets({"api_key": "new"}, {"api_key": "old"}) == {"api_key": "new"}


def test_a_mark_that_cannot_be_put_back_is_found() -> None:
    assert list(find_lost_secrets(canvas(url="https://u:***@x"))) == ["begin: url"]
    assert restore_secrets(canvas(url="https://u:***@y.example"), canvas(url="https://u:hunter22@x.example")) == canvas(
        url="https://u:***@y.example"
    )


def test_the_state_of_a_run_is_no_change() -> None:
    ran: dict[str, Any] = {**canvas(), "history": [["user", "hi"]], "path": ["begin"], "globals": {"sys.query": "hi"}}
    idle: dict[str, Any] = {**canvas(), "history": [], "path": [], "globals": {"sys.query": ""}}
    files = [build_agent_file(RemoteAgent("a1", "A", dsl)) for dsl in (ran, idle)]
    assert files[0] == files[1]


def test_huge_canvases_are_refused() -> None:
    with pytest.raises(ServiceError, match="8,000,000 characters"):
        build_agent_file(RemoteAgent("a1", "A", canvas(prompt="x" * 8_000_001)))
