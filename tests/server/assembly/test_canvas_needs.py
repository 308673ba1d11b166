import json
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.server.assembly.library import check_file
from ragflow_lg.server.settings import Settings, load_settings
from tests.fakes.canvas import canvas, node

CODES = (
    "model-unavailable",
    "dataset-unknown",
    "memory-unknown",
    "reranker-unavailable",
    "key-missing",
    "account-missing",
    "params-unsupported",
)


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def warnings_of(components: dict[str, Any], settings: str = "") -> list[Diagnostic]:
    """Return what a canvas lacks with these settings."""
    Path("c.json").write_text(json.dumps(canvas(components), indent=1))
    Path("s.toml").write_text(settings)
    plan, diagnostics, _ = check_file(Path("c.json"), lambda: load_settings(Path("s.toml")))
    assert plan is not None, diagnostics
    diagnostics = tuple(d for d in diagnostics if d.code != "failure-unhandled")
    assert {d.severity for d in diagnostics} <= {"warning"}
    assert all(d.line and d.hint for d in diagnostics)
    return [d for d in diagnostics if d.code in CODES]


def llm(llm_id: str) -> dict[str, Any]:
    return node("LLM", {"llm_id": llm_id, "prompts": [{"role": "user", "content": "{sys.query}"}]})


def test_a_model_without_provider_address_or_key_is_reported() -> None:
    (found,) = warnings_of({"a": llm("x@Nowhere")})
    assert (found.code, found.pointer) == ("model-unavailable", "/components/a/obj/params/llm_id")
    assert found.message == "The model 'x@Nowhere' cannot be used: there is no provider 'Nowhere'."
    assert found.hint.startswith("Set [providers.Nowhere] base_url and api_key")
    (found,) = warnings_of({"a": llm("x@Nowhere")}, "[providers.Nowhere]\nbase_url = 'https://n.example'")
    assert "has no key" in found.message
    (found,) = warnings_of({"a": llm("gpt@OpnAI")})
    assert found.hint == "Did you mean 'OpenAI'?"
    assert warnings_of({"a": llm("x@Nowhere")}, "[providers.Nowhere]\nbase_url = 'http://n.example'") == []
    assert warnings_of({"a": llm("")}) == []
    (found,) = warnings_of({"a": llm("")}, "default_model = 'x@Nowhere'")
    assert found.code == "model-unavailable"


def test_models_of_all_kinds_of_nodes_and_of_sub_agents_are_checked() -> None:
    inner = {"component_name": "Agent", "name": "In", "params": {"llm_id": "inner@Nowhere"}}
    components = {
        "c": node("Categorize", {"llm_id": "sort@Nowhere", "category_description": {"x": {"to": ["a"]}}}),
        "a": node("Agent", {"llm_id": "outer@Nowhere", "tools": [inner]}),
    }
    found = warnings_of(components)
    assert [(d.pointer, d.message.split("'")[1]) for d in found] == [
        ("/components/c/obj/params/llm_id", "sort@Nowhere"),
        ("/components/a/obj/params/llm_id", "outer@Nowhere"),
        ("/components/a/obj/params/tools/0/params/llm_id", "inner@Nowhere"),
    ]


def test_models_of_other_canvases_are_checked() -> None:
    Path("inner.json").write_text(json.dumps({"title": "Inner", **canvas({"x": llm("x@Nowhere")})}))
    (found,) = warnings_of({"a": node("Canvas", {"path": "inner.json"})})
    assert (found.code, found.pointer) == ("model-unavailable", "/components/a")
    assert found.message.startswith("In the canvas")


def test_keys_of_tools_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    tool: dict[str, Any] = {"component_name": "TavilySearch", "name": "t", "params": {}}
    components = {"a": node("Agent", {"llm_id": "demo", "tools": [tool]}), "g": node("Google", {"api_key": "k"})}
    (found,) = warnings_of(components)
    assert (found.code, found.pointer) == ("key-missing", "/components/a/obj/params/tools/0/params")
    assert "Set [tools.tavily] api_key" in found.hint
    named = "[tools.Tavily]\napi_key = { env = 'TAVILY_KEY_OF_TEST' }"
    (found,) = warnings_of(components, named)
    assert found.message == "The key of tavily is missing: the environment variable 'TAVILY_KEY_OF_TEST' is not set."
    monkeypatch.setenv("TAVILY_KEY_OF_TEST", "k")
    assert warnings_of(components, named) == []


def test_datasets_and_rerank_models_are_checked() -> None:
    params = {"query": "{sys.query}", "dataset_ids": ["65cb", "begin@set", "{sys.query}"], "rerank_id": "bge@X"}
    components = {"r": node("Retrieval", params)}
    dataset, reranker = warnings_of(components)
    assert (dataset.code, dataset.pointer) == ("dataset-unknown", "/components/r/obj/params/dataset_ids/0")
    assert "`ragflow-lg kb create NAME --id 65cb`" in dataset.hint
    assert "[knowledge] url" in dataset.hint
    assert (reranker.code, reranker.pointer) == ("reranker-unavailable", "/components/r/obj/params/rerank_id")
    known = "[rerankers.bge]\nbase_url = 'https://r.example'\napi_key = { env = 'RERANK_KEY_OF_TEST' }\n"
    _, reranker = warnings_of(components, known)
    assert "RERANK_KEY_OF_TEST" in reranker.message
    remote = "[knowledge]\nurl = 'ragflow+https://r.example'\n"
    assert warnings_of(components, remote) == [], "a server is not asked"


@pytest.mark.parametrize("option", ["use_kg", "toc_enhance"])
def test_options_that_only_ragflow_supports_are_reported(option: str) -> None:
    params = {"query": "{sys.query}", "kb_ids": ["{begin@set}"], option: True}
    tool: dict[str, Any] = {"component_name": "Retrieval", "name": "R", "params": {**params, "query": None}}
    components = {"r": node("Retrieval", params), "a": node("Agent", {"llm_id": "demo", "tools": [tool]})}
    of_node, of_tool = warnings_of(components)
    assert (of_node.code, of_node.pointer) == ("params-unsupported", f"/components/r/obj/params/{option}")
    assert of_tool.pointer == f"/components/a/obj/params/tools/0/params/{option}"
    assert of_node.message == f"The search fails, because the embedded knowledge base does not support {option}."
    elasticsearch = "[knowledge]\nurl = 'elasticsearch+https://e.example'\n"
    assert "Elasticsearch does not support" in warnings_of(components, elasticsearch)[0].message
    assert warnings_of(components, "[knowledge]\nurl = 'ragflow+https://r.example'\n") == []


def test_settings_are_loaded_only_if_they_are_needed() -> None:
    def load() -> Settings:
        raise AssertionError

    Path("c.json").write_text(json.dumps(canvas({"m": node("Message", {"content": ["x"]})})))
    assert check_file(Path("c.json"), load)[1] == ()


def test_databases_and_mail_servers_are_checked() -> None:
    tool = {"component_name": "Email", "name": "Mail", "params": {"server": "office"}}
    components = {
        "q": node("ExeSQL", {"connection": "shop", "sql": "SELECT 1"}),
        "a": node("Agent", {"llm_id": "demo", "tools": [tool]}),
    }
    database, mail = warnings_of(components)
    assert (database.code, database.pointer) == ("account-missing", "/components/q/obj/params/connection")
    assert database.hint == "Add [sql.connections.shop] to the settings."
    assert (mail.code, mail.pointer) == ("account-missing", "/components/a/obj/params/tools/0/params/server")
    known = "[sql.connections.shop]\ndb_type = 'sqlite'\ndatabase = 'a.db'\n[email.servers.office]\nhost = 'h'\n"
    assert warnings_of(components, known) == []


def test_models_that_speak_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    spoken = {"a": node("Message", {"content": ["x"], "auto_play": True})}
    (missing,) = warnings_of(spoken)
    assert missing.message.startswith("The answer is not spoken")
    assert "[speech.ID]" in missing.hint
    settings = '[speech."tts-1"]\nbase_url = "http://x/v1"\napi_key = { env = "NO_SUCH_KEY_OF_TEST" }\n'
    (keyless,) = warnings_of(spoken, settings)
    assert "NO_SUCH_KEY_OF_TEST" in keyless.message
    monkeypatch.setenv("NO_SUCH_KEY_OF_TEST", "k")
    assert warnings_of(spoken, settings) == []
    other = {"a": node("Message", {"content": ["x"], "auto_play": True, "tts_id": "gone@P"})}
    (unknown,) = warnings_of(other, settings)
    assert "'gone@P'" in unknown.message + unknown.hint


def test_memories_that_the_settings_do_not_declare_are_reported() -> None:
    components = {
        "r": node("Retrieval", {"retrieval_from": "memory", "memory_ids": ["notes"], "query": "q"}, ["m"]),
        "m": node("Message", {"content": ["hi"], "memory_ids": ["notes", "other"]}),
    }
    found = warnings_of(components)
    assert [(d.code, d.pointer) for d in found] == [
        ("memory-unknown", "/components/r/obj/params/memory_ids/0"),
        ("memory-unknown", "/components/m/obj/params/memory_ids/0"),
        ("memory-unknown", "/components/m/obj/params/memory_ids/1"),
    ]
    assert found[0].message == "There is no memory 'notes'."
    assert found[0].hint == 'Add [memories."notes"] to the settings.'
    (found,) = warnings_of(components, "[memories.notes]")
    assert found.pointer.endswith("/1")
