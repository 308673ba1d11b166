import json
import re
import tomllib
from pathlib import Path

import pytest

from ragflow_lg.base import extras
from tests.fakes.canvas import node
from tests.harness.rows import each_row
from tests.server.cli.command import invoke, save


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A canvas that needs a model, a dataset, a key, a database and a server, in the working folder."""
    monkeypatch.delenv("TAVILY_API_KEY", raising=False)
    deep = {"llm_id": "deep@DeepSeek", "prompts": [{"role": "user", "content": "x"}]}
    nodes = {
        "a": node("LLM", deep, ["b"]),
        "b": node("LLM", deep, ["c"]),
        "c": node("Retrieval", {"query": "sys.query", "dataset_ids": ["plants"]}, ["d"]),
        "d": node("TavilySearch", {"query": "sys.query"}, ["e"]),
        "e": node("ExeSQL", {"connection": "shop", "sql": "SELECT 1"}, ["f"]),
        "f": node("Invoke", {"url": "https://api.example.com/v1/{sys.query}", "method": "get"}),
    }
    return save("canvas.json", nodes)


def test_each_need_is_listed_once_with_its_nodes_and_its_state(file: Path) -> None:
    result = invoke("needs", file, "--output", "json")
    assert result.exit_code == 1
    found = {(need["kind"], need["name"]): need for need in json.loads(result.stdout)}
    text = invoke("needs", file).stdout
    assert "missing      API key of tavily  (d)" in text
    assert "kb create" in text
    assert "4 of 6 needs are missing." in text
    assert found["model", "deep@DeepSeek"]["users"] == ["a", "b"]
    assert found["model", "deep@DeepSeek"]["state"] == "missing"
    assert found["address", "https://api.example.com"]["state"] == "not checked"
    assert {("dataset", "plants"), ("key", "tavily"), ("database", "shop")} <= set(found)


def test_the_settings_that_it_writes_supply_what_is_missing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = invoke("needs", file, "--init")
    assert result.exit_code == 0
    assert "ragflow-lg.toml is used once this folder is trusted: ragflow-lg trust\n" in result.stderr
    written = Path("ragflow-lg.toml").read_text("utf-8").replace("https://…", "https://models.example.com")
    assert set(tomllib.loads(written)) == {"sql", "tools"}
    assert "only needs the environment variable DEEPSEEK_API_KEY" in written
    Path("ragflow-lg.toml").write_text(written, "utf-8")
    variables = Path(".env.example").read_text("utf-8").split()
    assert variables == ["DEEPSEEK_API_KEY=", "TAVILY_API_KEY=", "SHOP_PASSWORD="]
    for line in variables:
        monkeypatch.setenv(line.removesuffix("="), "x")
    result = invoke("needs", file, "--settings", "ragflow-lg.toml", "--output", "json")
    missing = [need["kind"] for need in json.loads(result.stdout) if need["state"] == "missing"]
    assert missing == ["dataset"]
    deep = node("Retrieval", {"query": "sys.query", "dataset_ids": ["plants"], "use_kg": True})
    words = ("needs", save("deep.json", {"a": deep}), "--settings", "ragflow-lg.toml", "--output", "toml")
    assert invoke(*words).stdout == "# a: ragflow-lg kb create NAME --id plants\n"


def test_files_are_not_overwritten(file: Path) -> None:
    Path("ragflow-lg.toml").write_text("")
    result = invoke("needs", file, "--init", "--settings", "ragflow-lg.toml")
    assert result.exit_code == 2
    assert "exists already" in result.stderr


def test_a_canvas_that_needs_nothing() -> None:
    result = invoke("needs", save("a.json", {"m": node("Message", {"content": ["x"]})}))
    assert (result.exit_code, result.stdout) == (0, "The canvas needs nothing from outside.\n")


def test_the_model_of_nodes_without_one_is_named() -> None:
    result = invoke("needs", save("a.json", {"m": node("LLM", {"prompts": [{"role": "user", "content": "x"}]})}))
    first, second, _ = result.stdout.splitlines()
    assert first == "demo         model the default model (demo)  (m)"
    assert second.strip().startswith("No key was found, so the demo model answers. Set OPENAI_API_KEY")
    assert result.exit_code == 0
    assert "Demo: No key was found" in invoke("run", "a.json", "x").stderr
    assert "Demo: No key was found" not in invoke("run", "a.json", "x", "--model", "demo").stderr
    chosen = {"RAGFLOW_LG_DEFAULT_MODEL": "demo"}
    assert invoke("needs", "a.json", environment=chosen).stdout.startswith("present      model the default model")


def test_what_a_node_does_not_name_is_missing_also_for_check() -> None:
    nodes = {"q": node("ExeSQL", {"sql": "SELECT 1"}, ["r"]), "r": node("Retrieval", {"query": "sys.query"})}
    file = save("a.json", nodes)
    result = invoke("needs", file)
    assert (result.exit_code, "2 of 2 needs are missing." in result.stdout) == (1, True)
    assert "missing      parameter dataset_ids  (r)" in result.stdout
    assert (invoke("check", file).exit_code, invoke("check", file, "--ready").exit_code) == (0, 1)


def test_a_run_names_everything_that_is_missing_before_it_begins(file: Path) -> None:
    result = invoke("run", file, "x", "--events", "pretty")
    lines = result.stderr.splitlines()
    assert lines[0] == "Something that the canvas needs is missing:"
    assert [line.split(":")[0] for line in lines[1:5]] == ["  a, b", "  d", "  c", "  e"]
    assert "a, b" not in invoke("run", file, "x", "--model", "demo", "--events", "pretty").stderr


@each_row("events", ["pretty", "json"])
def test_what_is_missing_is_not_said_again_where_it_fails(file: Path, events: str) -> None:
    lines = invoke("run", file, "x", "--events", events).stderr.splitlines()
    assert lines[1].startswith("  a, b: ")
    assert [line for line in lines[5:] if lines[1].partition(": ")[2] in line] == []
    assert any(line.endswith("a: what it needs is missing; see above.") for line in lines[5:])


def test_missing_packages_are_named_with_their_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "geheim-10")
    monkeypatch.setitem(extras.EXTRAS, "anthropic", ("no_such_package",))
    model = {"llm_id": "claude-sonnet-4-6@Anthropic", "prompts": [{"role": "user", "content": "x"}]}
    path = save("a.json", {"a": node("LLM", model)})
    assert "Anthropic's API needs no_such_package. Install it with: pip install" in invoke("needs", path).stdout
    template = invoke("needs", path, "--output", "toml").stdout
    assert re.search(r"needs packages: pip install '.*\[anthropic\]'\n$", template)
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    template = invoke("needs", path, "--output", "toml").stdout
    assert template.endswith("claude-sonnet-4-6@Anthropic only needs the environment variable ANTHROPIC_API_KEY.\n")
