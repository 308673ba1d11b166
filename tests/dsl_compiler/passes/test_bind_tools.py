from __future__ import annotations

from typing import Any

import pytest

from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.services.tool_policies import ToolPermits
from tests.fakes.agents import TAVILY, WIKI
from tests.fakes.canvas import CATALOG, canvas, diagnostics_of, node
from tests.fakes.policies import Canvases


def checked(*tools: Any, **params: Any) -> tuple[Any, dict[str, str]]:
    agent = node("Agent", {"llm_id": "m@T", "tools": list(tools), **params}, ["out"])
    plan, diagnostics = check_canvas(
        canvas({"a": agent, "out": node("Message", {"content": ["{a@content}"]})}), CATALOG
    )
    return plan, {d.code: d.pointer for d in diagnostics}


def test_tools_are_nodes_below_their_agent() -> None:
    inner = {"component_name": "agent", "name": "Fact Finder", "params": {"llm_id": "m@T", "tools": [WIKI]}}
    plan, diagnostics = checked(inner, TAVILY)
    assert diagnostics == {}
    finder, search = plan.nodes["a"].tools
    assert (finder.id, finder.tools[0].id) == ("a-->Fact_Finder", "a-->Fact_Finder-->Wiki")
    assert (search.spec.name, search.params.api_key) == ("TavilySearch", "k")
    assert set(plan.nodes) == {"begin", "a", "out"}


def test_what_a_tool_reads_is_read_by_its_agent() -> None:
    finder = {"component_name": "Agent", "name": "F", "params": {"llm_id": "m@T", "sys_prompt": "{ghost@x}"}}
    plan, diagnostics = checked(finder)
    assert "reference-unknown-node" in diagnostics
    assert plan is None or plan


def test_wrong_params_of_a_tool_are_told_where_they_stand() -> None:
    _, diagnostics = checked({**TAVILY, "params": {"topic": "gossip"}})
    assert diagnostics["params-invalid"].endswith("/tools/0/params/topic")


def test_an_unknown_tool_is_left_out_one_that_is_to_come_refused() -> None:
    plan, diagnostics = checked({"component_name": "Bing", "name": "B", "params": {}}, WIKI)
    assert [tool.spec.name for tool in plan.nodes["a"].tools] == ["Wikipedia"]
    assert "tool-unknown" in diagnostics
    assert "component-not-yet" in checked({"component_name": "CodeExec", "name": "R", "params": {}})[1]
    assert checked(mcp=[{"mcp_id": "x", "tools": {}}])[1] == {}


def test_agents_within_agents_end_somewhere() -> None:
    tool: Any = WIKI
    for _ in range(30):
        tool = {"component_name": "Agent", "name": "A", "params": {"llm_id": "m@T", "tools": [tool]}}
    _, diagnostics = checked(tool)
    assert "params-invalid" in diagnostics


@pytest.mark.parametrize(
    ("permits", "allowed", "says"),
    [
        (ToolPermits(), None, ""),
        (ToolPermits(deny=("WIKI*",)), None, "the settings of this deployment"),
        (ToolPermits(("TavilySearch",)), None, "the settings of this deployment"),
        (ToolPermits(), [], "the agent's allowed_tools"),
        (ToolPermits(), ["TavilySearch"], "the agent's allowed_tools"),
        (ToolPermits(), ["wiki*"], ""),
    ],
)
def test_a_forbidden_tool_is_refused(permits: ToolPermits, allowed: Any, says: str) -> None:
    agent = node("Agent", {"llm_id": "m@T", "tools": [WIKI], "allowed_tools": allowed}, ["out"])
    document = canvas({"a": agent, "out": node("Message", {"content": ["{a@content}"]})})
    plan, diagnostics = check_canvas(document, CATALOG, Canvases(permits=permits))
    told = [(d.pointer, d.message) for d in diagnostics if d.code == "tool-forbidden"]
    assert (plan is None, [pointer for pointer, _ in told]) == (
        bool(says),
        ["/components/a/obj/params/tools/0"] if says else [],
    )
    assert not says or says in told[0][1]


@pytest.mark.parametrize(
    ("name", "hint"),
    [("Bing", "TavilySearch or another search tool"), ("Wikipedai", "Did you mean Wikipedia?"), ("zzz", "Remove it")],
)
def test_advice_on_a_tool_that_is_none_names_tools_only(name: str, hint: str) -> None:
    agent = node("Agent", {"llm_id": "m@T", "tools": [{"component_name": name, "params": {}}]})
    (told,) = diagnostics_of(canvas({"a": agent}), "tool-unknown")
    assert hint in told.hint


def test_an_older_agent_that_is_a_tool_has_its_tools() -> None:
    inner = {"component_name": "Agent", "name": "F", "params": {"llm_id": "m@T", "llm_enabled_tools": [WIKI]}}
    plan, _ = checked(inner)
    assert [tool.spec.name for tool in plan.nodes["a"].tools[0].tools] == ["Wikipedia"]
