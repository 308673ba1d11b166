import json
from pathlib import Path

from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler.placeholder import NOT_YET
from tests.server.cli.command import ROOT, invoke, one_line


def test_every_component_is_listed() -> None:
    listed = invoke("components").stdout
    for spec in load_catalog():
        assert f"{spec.name} " in listed
    assert "Agent" in listed


def test_the_name_of_a_component_may_have_any_case() -> None:
    text = invoke("components", "sWITCH").stdout
    assert text.startswith("Switch: ")
    assert "end_cpn_ids" in text


def test_shapes_choices_and_defaults_are_shown() -> None:
    text = invoke("components", "Switch").stdout
    assert "  conditions: list of maps; required\n" in text
    assert '      operator: text; default "="\n' in text.replace("          operator", "      operator")
    assert "one of: contains, not contains, start with" in text
    assert "Ids of the next components if no case is met." in text
    assert '{"source"' not in invoke("components", "LLM").stdout
    assert 'default [{"role": "user", "content": "{sys.query}"}]' in invoke("components", "LLM").stdout


def test_json_lists_all_or_describes_one() -> None:
    every = json.loads(invoke("components", "--output", "json").stdout)
    assert {entry["name"] for entry in every["components"]} >= {"Begin", "LLM", "Switch"}
    one = json.loads(invoke("components", "LLM", "--output", "json").stdout)
    assert "sys_prompt" in one["parameters"]


def test_a_tool_shows_its_key_its_endpoint_and_snippets() -> None:
    text = invoke("components", "DeepL").stdout
    assert "  endpoint: https://api.deepl.com\n" in text
    assert "[tools.deepl] api_key_env and endpoint; the key is required" in text
    assert "key in the canvas: auth_key" in text
    assert '{"component_name": "DeepL", "name": "DeepL", "params": {}}' in text
    assert '"params": {"query": "{sys.query}"}' in text
    assert "[tools.wikipedia] endpoint; no key is needed" in invoke("components", "Wikipedia").stdout
    one = json.loads(invoke("components", "PubMed", "--output", "json").stdout)
    assert (one["service"]["section"], one["service"]["key"]) == ("pubmed", "optional")
    assert one["canvas"]["tool"]["component_name"] == "PubMed"


def test_an_unknown_name_is_refused_with_a_suggestion() -> None:
    result = invoke("components", "Swich")
    assert result.exit_code == 2
    assert "Switch" in result.stderr


def test_a_component_that_is_not_supported_yet() -> None:
    name = next(name for name in sorted(NOT_YET) if load_catalog().get(name) is None)
    result = invoke("components", name)
    assert result.exit_code == 2
    assert "is known but cannot run yet." in one_line(result.stderr)


def test_the_printed_schema_is_the_published_one() -> None:
    printed = invoke("schema").stdout
    assert json.loads(printed)["$schema"].endswith("2020-12/schema")
    assert invoke("schema", "--check", ROOT / "docs" / "canvas.schema.json").exit_code == 0


def test_a_schema_is_written_and_compared_with_this_version(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    missing = invoke("schema", "--check", path)
    assert missing.exit_code == 1
    assert "schema -o" in missing.stderr
    assert invoke("schema", "-o", path).exit_code == 0
    assert invoke("schema", "--check", path).exit_code == 0
    path.write_text("{}")
    assert invoke("schema", "--check", path).exit_code == 1
