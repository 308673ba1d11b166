"""What `check` says of a canvas and the settings: what is missing, too long or not sent."""

import json
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.server.assembly.library import check_file
from ragflow_lg.server.assembly.model_checks import check_model_requests
from ragflow_lg.server.settings import Settings, load_settings
from tests.fakes.canvas import canvas, node, plan_of
from tests.harness.rows import each_row

CODES = {
    "model-unavailable", "reranker-unavailable", "dataset-unknown", "memory-unknown", "key-missing", "account-missing",
    "webhook-closed", "params-unsupported", "prompt-too-long",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] - pytest uses it
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("KEY_OF_TEST", "k")
    Path("inner.json").write_text(json.dumps({"title": "Inner", **canvas({"x": llm("x@Nowhere")})}))


def warnings_of(components: dict[str, Any], settings: str = "") -> list[Diagnostic]:
    Path("c.json").write_text(json.dumps(canvas(components), indent=1))
    Path("s.toml").write_text(settings)
    plan, diagnostics, _ = check_file(Path("c.json"), lambda: load_settings(Path("s.toml")))
    assert plan is not None, diagnostics
    found = [d for d in diagnostics if d.code in CODES]
    assert all(d.severity == "warning" and d.line and d.hint for d in found)
    return found


def llm(llm_id: str, system: str = "", prompt: str = "{sys.query}") -> dict[str, Any]:
    prompts = [{"role": "user", "content": prompt}]
    return node("LLM", {"llm_id": llm_id, "sys_prompt": system, "prompts": prompts})


def agent(tool: str, params: dict[str, Any], llm_id: str = "demo") -> dict[str, Any]:
    return node("Agent", {"llm_id": llm_id, "tools": [{"component_name": tool, "name": "t", "params": params}]})


def nowhere(**settings: str) -> str:
    return "[providers.Nowhere]\n" + "".join(f"{name} = {value!r}\n" for name, value in settings.items())


SORT = node("Categorize", {"llm_id": "sort@Nowhere", "category_description": {"x": {"to": ["a"]}}})
RETRIEVAL = {"query": "{sys.query}", "dataset_ids": ["65cb", "begin@set", "{sys.query}"], "rerank_id": "bge@X"}
RERANKER = "[rerankers.bge]\nbase_url = 'https://r.example'\napi_key = { env = 'RERANK_KEY_OF_TEST' }\n"
GRAPH = {"query": "{sys.query}", "kb_ids": ["{begin@set}"], "use_kg": True}
SHOP = node("ExeSQL", {"connection": "shop", "sql": "SELECT 1"})
CLOSED = {"begin": node("Begin", {"mode": "Webhook"}, ["m"]), "m": node("Message", {"content": ["x"]})}
SPOKEN = {"a": node("Message", {"content": ["x"], "auto_play": True})}
REMOTE = "[knowledge]\nurl = 'ragflow+https://r.example'\n"
SPEECH = '[speech."tts-1"]\nbase_url = "http://x/v1"\napi_key = { env = "NO_SUCH_KEY_OF_TEST" }\n'
NOTES = {
    "r": node("Retrieval", {"retrieval_from": "memory", "memory_ids": ["notes"], "query": "q"}, ["m"]),
    "m": node("Message", {"content": ["hi"], "memory_ids": ["notes", "other"]}),
}


@each_row(
    ("components", "settings", "expected"),
    [
        ({"a": llm("x@Nowhere")}, "", [("model-unavailable", "a/obj/params/llm_id", "there is no provider 'Nowhere'")]),
        ({"a": llm("x@Nowhere")}, "", [("model-unavailable", "a", "Set [providers.Nowhere] base_url and api_key")]),
        ({"a": llm("x@Nowhere")}, nowhere(base_url="https://n.example"), [("model-unavailable", "a", "has no key")]),
        ({"a": llm("x@Nowhere")}, nowhere(base_url="http://n.example"), []),
        ({"a": llm("gpt@OpnAI")}, "", [("model-unavailable", "a", "Did you mean 'OpenAI'?")]),
        ({"a": llm("")}, "", []),
        ({"a": llm("")}, "default_model = 'x@Nowhere'", [("model-unavailable", "a", "")]),
        (
            {"c": SORT, "a": agent("Agent", {"llm_id": "inner@Nowhere"}, "outer@Nowhere")},
            "",
            [
                ("model-unavailable", "c/obj/params/llm_id", "sort@Nowhere"),
                ("model-unavailable", "a/obj/params/llm_id", "outer@Nowhere"),
                ("model-unavailable", "a/obj/params/tools/0/params/llm_id", "inner@Nowhere"),
            ],
        ),
        ({"a": node("Canvas", {"path": "inner.json"})}, "", [("model-unavailable", "a", "In the canvas")]),
        (
            {"a": agent("TavilySearch", {}), "g": node("Google", {"api_key": "k"})},
            "",
            [("key-missing", "a/obj/params/tools/0/params", "Set [tools.tavily] api_key")],
        ),
        (
            {"a": agent("TavilySearch", {})},
            "[tools.Tavily]\napi_key = { env = 'NO_SUCH_KEY_OF_TEST' }",
            [("key-missing", "a", "NO_SUCH_KEY_OF_TEST")],
        ),
        ({"a": agent("TavilySearch", {})}, "[tools.Tavily]\napi_key = { env = 'KEY_OF_TEST' }", []),
        (
            {"r": node("Retrieval", RETRIEVAL)},
            RERANKER,
            [
                ("dataset-unknown", "r/obj/params/dataset_ids/0", "`ragflow-lg kb create NAME --id 65cb`"),
                ("reranker-unavailable", "r/obj/params/rerank_id", "RERANK_KEY_OF_TEST"),
            ],
        ),
        ({"r": node("Retrieval", RETRIEVAL)}, REMOTE, []),  # a server is not asked
        (
            {"r": node("Retrieval", GRAPH), "a": agent("Retrieval", {**GRAPH, "query": None})},
            "",
            [
                ("params-unsupported", "r/obj/params/use_kg", "the embedded knowledge base does not support use_kg."),
                ("params-unsupported", "a/obj/params/tools/0/params/use_kg", ""),
            ],
        ),
        (
            {"r": node("Retrieval", GRAPH)},
            "[knowledge]\nurl = 'elasticsearch+https://e.example'\n",
            [("params-unsupported", "r", "Elasticsearch does not support")],
        ),
        ({"r": node("Retrieval", GRAPH)}, REMOTE, []),
        (
            {"q": SHOP, "a": agent("Email", {"server": "office"})},
            "",
            [
                ("account-missing", "q/obj/params/connection", "Add [sql.connections.shop] to the settings."),
                ("account-missing", "a/obj/params/tools/0/params/server", ""),
            ],
        ),
        (CLOSED, "", [("webhook-closed", "begin", "in the Begin node of RAGFlow's editor.")]),
        ({"q": SHOP}, "[sql.connections.shop]\ndb_type = 'sqlite'\ndatabase = 'a.db'\n", []),
        (SPOKEN, "", [("model-unavailable", "a", "[speech.ID]")]),
        (SPOKEN, SPEECH, [("model-unavailable", "a", "NO_SUCH_KEY_OF_TEST")]),
        (SPOKEN, SPEECH.replace("NO_SUCH_KEY", "KEY"), []),
        (
            {"a": node("Message", {"content": ["x"], "auto_play": True, "tts_id": "gone@P"})},
            SPEECH,
            [("model-unavailable", "a", "'gone@P'")],
        ),
        (
            NOTES,
            "[memories.other]",
            [
                ("memory-unknown", "r/obj/params/memory_ids/0", "There is no memory 'notes'."),
                ("memory-unknown", "m/obj/params/memory_ids/0", 'Add [memories."notes"] to the settings.'),
            ],
        ),
    ],
)
def test_what_the_settings_lack_is_a_warning(
    components: dict[str, Any], settings: str, expected: list[tuple[str, str, str]]
) -> None:
    found = warnings_of(components, settings)
    assert [d.code for d in found] == [code for code, _, _ in expected]
    for diagnostic, (_, pointer, words) in zip(found, expected, strict=True):
        assert f"{diagnostic.pointer}/".startswith(f"/components/{pointer}/")
        assert words in f"{diagnostic.message} {diagnostic.hint}"


SMALL = "[providers.P]\nbase_url = 'http://p.example'\n[models.small]\ncontext_tokens = 1000\n"
LONG = "word " * 1000


def test_a_prompt_that_is_longer_than_the_window_is_reported_at_its_longest_text() -> None:
    (found,) = warnings_of({"a": llm("small@P", LONG)}, SMALL)
    assert (found.code, found.pointer) == ("prompt-too-long", "/components/a/obj/params/sys_prompt")
    for words in ("about 1,250 tokens", "room for 970"):
        assert words in found.message
    assert "context_tokens in the settings, which is 1,000" in found.hint
    (found,) = warnings_of({"a": llm("small@P", "Be kind.", LONG + "{sys.query}")}, SMALL)
    assert found.pointer == "/components/a/obj/params/prompts/0/content"
    assert warnings_of({"a": llm("small@P", "x" * 4 * 970)}, SMALL) == []  # values count nothing
    assert warnings_of({"a": llm("other@P", LONG)}, SMALL) == []
    (found,) = warnings_of({"a": llm("other@P", "x" * 4 * 128_000)}, SMALL)
    assert "which is 128,000" in found.hint


def test_only_the_system_prompt_of_an_agent_counts_if_it_is_a_tool() -> None:
    tool = {"llm_id": "small@P", "prompts": [{"role": "user", "content": LONG}]}
    assert warnings_of({"a": agent("Agent", tool, "large@P")}, SMALL) == []
    (found,) = warnings_of({"a": agent("Agent", {**tool, "sys_prompt": LONG}, "large@P")}, SMALL)
    assert (found.pointer, found.node) == ("/components/a/obj/params/tools/0/params/sys_prompt", "a")


PROVIDERS: dict[str, Any] = {
    "providers": {"OpenAI": {"api_key": "k"}, "Local": {"base_url": "http://127.0.0.1:1/v1"}},
    "models": {"open@Local": {"sends_max_tokens": True}},
}
LIMITED = {"max_tokens": 50, "maxTokensEnabled": True}


@each_row(
    ("component", "params", "expected"),
    [
        (
            "LLM",
            {"llm_id": "m@Local", **LIMITED, "top_p": 0.5, "topPEnabled": True},
            "max_tokens is not sent to m@Local",
        ),
        ("Agent", {"llm_id": "m@Local", **LIMITED}, "max_tokens is not sent to m@Local, as in RAGFlow."),
        ("LLM", {"llm_id": "gpt-5@OpenAI", "temperature": 0.1, "temperatureEnabled": True}, "refuses it"),
        ("LLM", {"llm_id": "m@Local", "max_tokens": 50}, ""),
        ("LLM", {"llm_id": "open@Local", **LIMITED}, ""),
        ("LLM", {"llm_id": "m@Nowhere", **LIMITED}, ""),
        ("LLM", {"llm_id": "demo", **LIMITED}, ""),
    ],
)
def test_a_parameter_that_is_not_sent_is_named(component: str, params: dict[str, Any], expected: str) -> None:
    settings = Settings.model_validate(PROVIDERS)
    plan = plan_of(canvas({"g": node(component, {"prompts": "x", **params})}))
    found = check_model_requests(plan, lambda: settings)
    assert [(d.severity, expected in d.message) for d in found] == [("info", True)] * bool(expected)
