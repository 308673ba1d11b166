import json
from pathlib import Path

from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler import check_canvas
from tests.fakes.canvas import canvas, node
from tests.harness.rows import each_row
from tests.server.cli.command import invoke, one_line


def test_the_name_of_a_component_may_have_any_case() -> None:
    text = invoke("components", "sWITCH").stdout
    assert text.startswith("Switch: ")
    assert invoke("components", "PDFGenerator").stdout.startswith("DocGenerator: ")
    assert "end_cpn_ids" in text


def test_shapes_choices_and_defaults_are_shown() -> None:
    text = invoke("components", "Switch").stdout
    assert "  conditions: list of maps; required\n" in text
    assert '      operator: text; default "="\n' in text.replace("          operator", "      operator")
    assert "one of: contains, not contains, start with" in text
    assert "Ids of the next components if no case is met." in text
    assert '{"source"' not in invoke("components", "LLM").stdout
    assert 'default [{"role": "user", "content": "{sys.query}"}]' in invoke("components", "LLM").stdout


def test_a_tool_shows_its_key_its_endpoint_and_snippets() -> None:
    text = invoke("components", "DeepL").stdout
    assert "  endpoint: https://api.deepl.com\n" in text
    assert "[tools.deepl] api_key and endpoint; the key is required" in text
    assert "key in the canvas: auth_key" in text
    assert '{"component_name": "DeepL", "name": "DeepL", "params": {}}' in text
    assert '"params": {"query": "{sys.query}"}' in text
    assert "[tools.wikipedia] endpoint; no key is needed" in invoke("components", "Wikipedia").stdout
    one = json.loads(invoke("components", "PubMed", "--output", "json").stdout)
    assert (one["service"]["section"], one["service"]["key"]) == ("pubmed", "optional")
    assert one["canvas"]["tool"]["component_name"] == "PubMed"


def test_a_tool_without_a_service_shows_what_the_settings_contain() -> None:
    sections = {"ExeSQL": "[sql.connections.NAME]", "Email": "[email.servers.NAME]", "Crawler": "[crawler]"}
    for name, section in {**sections, "CodeExec": "[code]"}.items():
        assert f"\nSettings: {section}" in invoke("components", name).stdout
    assert '"params": {"connection": "NAME"}' in invoke("components", "ExeSQL").stdout
    assert "\nOutputs: formalized_content, json\n" in invoke("components", "ExeSQL").stdout


_LINT = ("dataset-unknown", "sql-reference-text")
"""The advice for a Retrieval without datasets, and for a question of the user as SQL."""


@each_row("name", sorted(spec.name for spec in load_catalog() if spec.tool and spec.tool.function))
def test_the_snippets_of_a_tool_pass_the_check(name: str) -> None:
    snippets = json.loads(invoke("components", name, "--output", "json").stdout)["canvas"]
    ((_, entry),) = snippets["node"].items()
    agent = node("Agent", {"llm_id": "m@Test", "tools": [snippets["tool"]]})
    document = canvas({"n": node(name, entry["obj"]["params"], ["a"]), "a": agent})
    _, diagnostics = check_canvas(document, load_catalog())
    problems = [str(problem) for problem in diagnostics if problem.severity != "info" and problem.code not in _LINT]
    assert problems == []


@each_row(
    ("name", "advice"),
    [("WebSearch", "the tool of its engine"), ("Generate", "LLM, with the old prompt"), ("Swich", "Switch")],
)
def test_a_former_component_is_refused_with_its_replacement(name: str, advice: str) -> None:
    result = invoke("components", name)
    assert result.exit_code == 2
    assert advice in one_line(result.stderr)


def test_a_schema_is_written(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    assert invoke("canvas", "schema", "-o", path).exit_code == 0
    assert path.read_text("utf-8") == invoke("canvas", "schema").stdout
    assert json.loads(path.read_bytes())["title"] == "RAGFlow canvas (DSL v1)"
