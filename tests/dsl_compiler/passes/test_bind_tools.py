from typing import Any

import pytest

from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.services.tool_policies import ToolPermits
from tests.fakes.agents import TAVILY, WIKI
from tests.fakes.canvas import CATALOG, canvas, diagnostics_of, node
from tests.fakes.policies import Canvases
from tests.harness.rows import each_row


def pointers_by_code(*tools: Any, **params: Any) -> tuple[Any, dict[str, str]]:
    """Check a canvas with an agent. Return its plan, and a pointer for each diagnostic code."""
    agent = node("Agent", {"llm_id": "m@T", "tools": list(tools), **params}, ["out"])
    plan, diagnostics = check_canvas(
        canvas({"a": agent, "out": node("Message", {"content": ["{a@content}"]})}), CATALOG
    )
    return plan, {d.code: d.pointer for d in diagnostics}


def test_tools_are_nodes_below_their_agent() -> None:
    inner = {"component_name": "agent", "name": "Fact Finder", "params": {"llm_id": "m@T", "tools": [WIKI]}}
    plan, diagnostics = pointers_by_code(inner, TAVILY)
    assert diagnostics == {}
    finder, search = plan.nodes["a"].tools
    assert (finder.id, finder.tools[0].id) == ("a-->Fact_Finder", "a-->Fact_Finder-->Wiki")
    assert (search.spec.name, search.params.api_key) == ("TavilySearch", "k")
    assert set(plan.nodes) == {"begin", "a", "out"}


def test_references_of_a_tool_are_checked_at_its_agent() -> None:
    finder = {"component_name": "Agent", "name": "F", "params": {"llm_id": "m@T", "sys_prompt": "{ghost@x}"}}
    plan, diagnostics = pointers_by_code(finder)
    assert "reference-unknown-node" in diagnostics
    assert plan is None or plan


def test_invalid_params_of_a_tool_are_reported_with_their_pointer() -> None:
    _, diagnostics = pointers_by_code({**TAVILY, "params": {"topic": "gossip"}})
    assert diagnostics["params-invalid"].endswith("/tools/0/params/topic")


def test_an_unknown_tool_is_omitted() -> None:
    plan, diagnostics = pointers_by_code({"component_name": "Bing", "name": "B", "params": {}}, WIKI)
    assert [tool.spec.name for tool in plan.nodes["a"].tools] == ["Wikipedia"]
    assert "tool-unknown" in diagnostics
    assert pointers_by_code(mcp=[{"mcp_id": "x", "tools": {}}])[1] == {}


def test_the_depth_of_nested_agents_is_limited() -> None:
    tool: Any = WIKI
    for _ in range(30):
        tool = {"component_name": "Agent", "name": "A", "params": {"llm_id": "m@T", "tools": [tool]}}
    _, diagnostics = pointers_by_code(tool)
    assert "params-invalid" in diagnostics


@each_row(
    ("permits", "allowed", "message"),
    [
        (ToolPermits(), None, ""),
        (ToolPermits(deny=("WIKI*",)), None, "this deployment's settings"),
        (ToolPermits(("TavilySearch",)), None, "this deployment's settings"),
        (ToolPermits(), [], "the agent's allowed_tools"),
        (ToolPermits(), ["TavilySearch"], "the agent's allowed_tools"),
        (ToolPermits(), ["wiki*"], ""),
    ],
)
def test_a_forbidden_tool_is_refused(permits: ToolPermits, allowed: Any, message: str) -> None:
    agent = node("Agent", {"llm_id": "m@T", "tools": [WIKI], "allowed_tools": allowed}, ["out"])
    document = canvas({"a": agent, "out": node("Message", {"content": ["{a@content}"]})})
    plan, diagnostics = check_canvas(document, CATALOG, Canvases(permits=permits))
    forbidden = [d for d in diagnostics if d.code == "tool-forbidden"]
    assert (plan is None, [d.pointer for d in forbidden]) == (
        bool(message),
        ["/components/a/obj/params/tools/0"] if message else [],
    )
    assert not message or message in forbidden[0].message


@pytest.mark.parametrize(
    ("name", "hint"),
    [("Bing", "TavilySearch or another search tool"), ("Wikipedai", "Did you mean Wikipedia?"), ("zzz", "Remove it")],
)
def test_suggestions_for_an_unknown_tool_are_tools(name: str, hint: str) -> None:
    agent = node("Agent", {"llm_id": "m@T", "tools": [{"component_name": name, "params": {}}]})
    (diagnostic,) = diagnostics_of(canvas({"a": agent}), "tool-unknown")
    assert hint in diagnostic.hint


def test_an_agent_tool_with_old_parameter_names_has_its_tools() -> None:
    inner = {"component_name": "Agent", "name": "F", "params": {"llm_id": "m@T", "llm_enabled_tools": [WIKI]}}
    plan, _ = pointers_by_code(inner)
    assert [tool.spec.name for tool in plan.nodes["a"].tools[0].tools] == ["Wikipedia"]


@each_row(
    "name", ["HybridSearch", "hybrid_search", "vector_search", "BM25Search", "WikiQuery", "dataset_navigation_by_tree"]
)
def test_a_tool_of_the_next_ragflow_is_named_as_such(name: str) -> None:
    agent = node("Agent", {"llm_id": "m@T", "tools": [{"component_name": name, "name": "t", "params": {}}]})
    (found,) = diagnostics_of(canvas({"a": agent}), "tool-unknown")
    assert found.hint == "It is a tool of RAGFlow 1.0's engine, which is not offered here. Replacement: Retrieval."
