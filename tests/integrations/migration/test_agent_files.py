import json
from typing import Any

import pytest

from ragflow_lg.adapters.ragflow_api.remote_agents import RemoteAgent
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.migration.agent_files import build_agent_file
from tests.harness.rows import each_row


def canvas(**params: Any) -> dict[str, Any]:
    return {"components": {"begin": {"obj": {"component_name": "Begin", "params": params}, "downstream": []}}}


def stored(dsl: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    file = build_agent_file(RemoteAgent("a1", "A", dsl))
    return json.loads(file.text)["dsl"]["components"]["begin"]["obj"]["params"], file.blanked


@each_row(
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
def test_keys_are_left_out(params: dict[str, Any], kept: dict[str, Any]) -> None:
    here, blanked = stored(canvas(**params))
    assert here == kept
    assert len(blanked) >= 1
    assert all(place.startswith("begin: ") for place in blanked)


@each_row(
    "params",
    [
        {"api_key": "{env.key}"},
        {"updates": [{"key": "name", "value": "x"}]},
        {"variables": [{"key": "token", "value": "{sys.query}"}, {"key": "Authorization", "value": "Bearer {env.t}"}]},
        {"path": "a.key", "filter": [{"key": "pattern", "value": "x"}], "signed": True},
        {"max_tokens": 7, "token": "string"},
        {"prompt": "Say the password policy."},
    ],
)
def test_other_values_stay(params: dict[str, Any]) -> None:
    assert stored(canvas(**params)) == (params, ())


@each_row("label", ["token", "Token", "auth", "pass", "key", "password ", "token2", "pat", "auth_code"])
@each_row("secret", ["LEAK", 12345678, ["LEAK"], {"a": "LEAK"}, "a{b}LEAK", "LEAK{sys.query}"])
def test_values_that_a_label_names_as_secrets_are_left_out(label: str, secret: Any) -> None:
    for at, by in (("key", "value"), ("field", "value"), ("name", "default"), ("key", "text"), ("header", "val")):
        theirs = canvas(variables=[{at: label, by: secret}])
        here, blanked = stored(theirs)
        assert "LEAK" not in str(here)
        assert "12345678" not in str(here)
        assert here["variables"][0][at] == label
        assert blanked


@each_row("name", ["token", "password", "sig", "passwort"])
def test_a_field_with_the_name_of_a_secret_loses_only_its_value(name: str) -> None:
    field = {"name": "Name", "type": "line", "optional": True, "value": "LEAK", "extra": 7}
    here, _ = stored(canvas(inputs={name: field}))
    kept = here["inputs"][name]
    assert (kept["name"], kept["type"], kept["optional"], kept["value"]) == ("Name", "line", True, "")


def test_the_state_of_a_run_is_no_change() -> None:
    ran: dict[str, Any] = {**canvas(), "history": [["user", "hi"]], "path": ["begin"], "globals": {"sys.query": "hi"}}
    idle: dict[str, Any] = {**canvas(), "history": [], "path": [], "globals": {"sys.query": ""}}
    files = [build_agent_file(RemoteAgent("a1", "A", dsl)) for dsl in (ran, idle)]
    assert files[0] == files[1]


def test_huge_canvases_are_refused() -> None:
    with pytest.raises(ServiceError, match="8,000,000 characters"):
        build_agent_file(RemoteAgent("a1", "A", canvas(prompt="x" * 8_000_001)))
