import json
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.models.prompts import fit_context
from ragflow_lg.server.assembly.library import check_file
from ragflow_lg.server.assembly.prompt_sizes import MIN_TOKENS
from ragflow_lg.server.settings import Settings, load_settings
from tests.fakes.canvas import canvas, node

SETTINGS = "[providers.P]\nbase_url = 'http://p.example'\n[models.small]\ncontext_tokens = 1000\n"
LIMIT = 970
LONG = "word " * 1000


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def warnings_of(components: dict[str, Any], settings: str = SETTINGS) -> list[Diagnostic]:
    Path("c.json").write_text(json.dumps(canvas(components), indent=1))
    Path("s.toml").write_text(settings)
    _, diagnostics, _ = check_file(Path("c.json"), lambda: load_settings(Path("s.toml")))
    return [d for d in diagnostics if d.code == "prompt-too-long"]


def llm(system: str, prompt: str = "{sys.query}", llm_id: str = "small@P", **params: Any) -> dict[str, Any]:
    prompts = [{"role": "user", "content": prompt}]
    return node("LLM", {"llm_id": llm_id, "sys_prompt": system, "prompts": prompts, **params})


def test_a_prompt_that_is_longer_than_the_window_is_reported_at_its_longest_text() -> None:
    (found,) = warnings_of({"a": llm(LONG)})
    assert (found.severity, found.pointer) == ("warning", "/components/a/obj/params/sys_prompt")
    assert found.line
    assert "about 1,250 tokens" in found.message
    assert "room for 970" in found.message
    assert "context_tokens in the settings, which is 1,000" in found.hint
    (found,) = warnings_of({"a": llm("Be kind.", LONG + "{sys.query}")})
    assert found.pointer == "/components/a/obj/params/prompts/0/content"


def test_values_count_nothing_and_the_limit_is_that_of_the_engine() -> None:
    fitting, spilling = "x" * 4 * LIMIT, "x" * (4 * LIMIT + 1)
    assert warnings_of({"a": llm(fitting, "{sys.query}")}) == []
    assert len(warnings_of({"a": llm(spilling)})) == 1
    message = {"role": "user", "content": "Hi"}
    assert fit_context("x" * 4 * (LIMIT - 1), [message], 1000)[0] == "x" * 4 * (LIMIT - 1)
    assert fit_context(spilling, [message], 1000)[0] != spilling


def test_a_window_that_is_not_declared_is_the_default() -> None:
    assert warnings_of({"a": llm(LONG, llm_id="other@P")}) == []
    (found,) = warnings_of({"a": llm("x" * 4 * 128_000, llm_id="other@P")})
    assert "which is 128,000" in found.hint


def test_sections_that_replace_other_prompts_are_not_a_part_of_the_prompt() -> None:
    section = f"<PLAN_GENERATION>{LONG}</PLAN_GENERATION>"
    assert warnings_of({"a": node("Agent", {"llm_id": "small@P", "sys_prompt": section})}) == []


def test_only_the_system_prompt_of_an_agent_counts_if_it_is_a_tool() -> None:
    def with_tool(**params: Any) -> dict[str, Any]:
        inner = {"component_name": "Agent", "name": "In", "params": {"llm_id": "small@P", **params}}
        return {"a": node("Agent", {"llm_id": "large@P", "tools": [inner]})}

    assert warnings_of(with_tool(prompts=[{"role": "user", "content": LONG}])) == []
    (found,) = warnings_of(with_tool(sys_prompt=LONG))
    assert (found.pointer, found.node) == ("/components/a/obj/params/tools/0/params/sys_prompt", "a")


def test_categories_are_a_part_of_the_prompt() -> None:
    categories = {"x": {"description": LONG, "to": ["m"]}, "y": {"to": ["m"]}}
    components = {
        "c": node("Categorize", {"llm_id": "small@P", "category_description": categories}),
        "m": node("Message", {"content": ["x"]}),
    }
    (found,) = warnings_of(components)
    assert found.pointer == "/components/c/obj/params/category_description"


def test_a_model_that_is_missing_is_reported_only_as_missing() -> None:
    assert warnings_of({"a": llm(LONG, llm_id="small@Nowhere")}) == []


def test_settings_are_not_loaded_for_short_prompts() -> None:
    from ragflow_lg.catalog import load_catalog
    from ragflow_lg.dsl_compiler import check_canvas
    from ragflow_lg.server.assembly.prompt_sizes import check_prompt_sizes

    def load() -> Settings:
        raise AssertionError

    plan, _ = check_canvas(canvas({"a": llm("x" * 4 * (MIN_TOKENS - 1), "")}), load_catalog())
    assert plan is not None
    assert check_prompt_sizes(plan, load) == []
