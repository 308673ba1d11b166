from __future__ import annotations

import json

from ragflow_lg.catalog import load_catalog
from tests.server.cli.command import invoke


def test_every_component_is_listed() -> None:
    listed = invoke("components").stdout
    for spec in load_catalog():
        assert f"{spec.name} " in listed
    assert "Agent" in listed


def test_one_component_by_any_case() -> None:
    told = invoke("components", "sWITCH").stdout
    assert told.startswith("Switch: ")
    assert "end_cpn_ids" in told


def test_shapes_choices_and_defaults_are_shown() -> None:
    told = invoke("components", "Switch").stdout
    assert "  conditions: list of maps; required\n" in told
    assert '      operator: text; default "="\n' in told.replace("          operator", "      operator")
    assert "one of: contains, not contains, start with" in told
    assert "Where to go when no case holds." in told
    assert '{"source"' not in invoke("components", "LLM").stdout
    assert 'default [{"role": "user", "content": "{sys.query}"}]' in invoke("components", "LLM").stdout


def test_json() -> None:
    every = json.loads(invoke("components", "--output", "json").stdout)
    assert {entry["name"] for entry in every["components"]} >= {"Begin", "LLM", "Switch"}
    one = json.loads(invoke("components", "LLM", "--output", "json").stdout)
    assert "sys_prompt" in one["parameters"]


def test_an_unknown_name() -> None:
    result = invoke("components", "Swich")
    assert result.exit_code == 2
    assert "Switch" in result.stderr


def test_a_known_one_that_cannot_run_yet() -> None:
    result = invoke("components", "Agent")
    assert "Agent" in result.stdout + result.stderr
