import logging
from typing import Any

import pytest

from ragflow_lg.server.assembly.unknown_names import find_unknown_names, report_unknown_names
from ragflow_lg.server.settings import Settings


def settings_of(**sections: Any) -> Settings:
    return Settings.model_validate(sections)


def test_a_section_that_no_tool_uses_is_reported() -> None:
    near, far = find_unknown_names(settings_of(tools={"SearXNG": {}, "serxng": {}, "nothing_like_it": {}}))
    assert (near.is_well, near.what) == (False, "no tool uses the section [tools.serxng]")
    assert near.advice == "Did you mean [tools.searxng]?"
    assert "components NAME" in far.advice


def test_names_of_a_tenant_that_the_settings_do_not_describe_are_reported() -> None:
    mcp = {"files": {"command": "x"}, "search": {"command": "x"}}
    tenants = {"shop": {"keys": ["mcp.files", "mcp.srch", "*", "email.own"], "models": ["openai", "Opnai"]}}
    found = {result.what: result.advice for result in find_unknown_names(settings_of(mcp=mcp, tenants=tenants))}
    assert found == {
        "models of [tenants.\"shop\"] names 'Opnai', which is nowhere": "Did you mean 'OpenAI'?",
        "keys of [tenants.\"shop\"] names 'mcp.srch', which is nowhere": "Did you mean 'mcp.search'?",
        "keys of [tenants.\"shop\"] names 'email.own', which is nowhere": "Correct or remove it.",
    }


def test_names_that_canvases_write_in_another_way_are_known() -> None:
    sections: dict[str, Any] = {
        "rerankers": {"bge": {"base_url": "http://127.0.0.1", "model": "bge"}},
        "tools": {"Tavily": {}},
        "providers": {"Cloud": {"base_url": "http://127.0.0.1"}},
        "tenants": {
            "*": {
                "models": ["rerank@Jina", "bge", "gpt-4.1@OpenAI", "big@cloud"],
                "keys": ["tools.tavily", "datasets.any"],
            }
        },
    }
    assert find_unknown_names(settings_of(**sections)) == []


def test_a_server_logs_unknown_names(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        report_unknown_names(settings_of(tools={"serxng": {}}, tenants={"shop": {"keys": ["tools.searxng"]}}))
    assert caplog.messages == [
        "No tool uses the section [tools.serxng]. Did you mean [tools.searxng]?",
        "Keys of [tenants.\"shop\"] names 'tools.searxng', which is nowhere. Did you mean 'tools.serxng'?",
    ]
