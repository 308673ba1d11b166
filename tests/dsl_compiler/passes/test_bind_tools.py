from functools import reduce
from typing import Any

from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.services.tool_policies import ToolPermits
from tests.fakes.agents import TAVILY, WIKI
from tests.fakes.canvas import CATALOG, assert_findings, canvas, node, plan_of, text
from tests.fakes.policies import Canvases
from tests.fakes.regions import assign, iteration, out
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


def test_an_unknown_tool_is_omitted() -> None:
    plan, diagnostics = pointers_by_code({"component_name": "Bing", "name": "B", "params": {}}, WIKI)
    assert [tool.spec.name for tool in plan.nodes["a"].tools] == ["Wikipedia"]
    assert "tool-unknown" in diagnostics
    assert pointers_by_code(mcp=[{"mcp_id": "x", "tools": {}}])[1] == {}


def agent_tool(**params: Any) -> dict[str, Any]:
    return {"component_name": "Agent", "name": "F", "params": {"llm_id": "m@T", **params}}


def named(name: str) -> dict[str, Any]:
    return {"component_name": name, "name": "t", "params": {}}


DEEP = reduce(lambda tool, _: agent_tool(tools=[tool]), range(30), WIKI)
NEXT = r"It is a tool of RAGFlow 1\.0's engine, which is not offered here\. Replacement: Retrieval\.$"


@each_row(
    ("tool", "code", "expected"),
    [
        (agent_tool(sys_prompt="{ghost@x}"), "reference-unknown-node", [" a "]),
        ({**TAVILY, "params": {"topic": "gossip"}}, "params-invalid", ["/tools/0/params/topic:"]),
        (DEEP, "params-invalid", [""]),
        (named("Bing"), "tool-unknown", ["TavilySearch or another search tool"]),
        (named("Wikipedai"), "tool-unknown", [r"Did you mean Wikipedia\?"]),
        (named("zzz"), "tool-unknown", ["Remove it"]),
        *((named(name), "tool-unknown", [NEXT]) for name in ("WikiQuery", "wiki_query", "dataset_navigation_by_tree")),
        (named("hybrid_search"), "dataset-unknown", [r"/tools/0/params/dataset_ids: No dataset is set"]),
    ],
)
def test_what_is_wrong_with_a_tool_is_reported_at_its_agent(tool: Any, code: str, expected: list[str]) -> None:
    assert_findings(canvas({"a": node("Agent", {"llm_id": "m@T", "tools": [tool]})}), code, *expected)


def params_of_tools(**params: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the component and the params of each tool of an agent."""
    agent = node("Agent", {"llm_id": "m@T", **params})
    tools = plan_of(canvas({"a": agent})).nodes[NodeId("a")].tools
    return [(tool.spec.name, tool.params.model_dump(mode="json")) for tool in tools]


@each_row(
    ("name", "component", "weight"),
    [
        ("hybrid_search", "Retrieval", 0.5),
        ("vector_search", "Retrieval", 0.0),
        ("BM25Search", "Retrieval", 1.0),
        *((name, "TavilySearch", None) for name in ("tavily", "tavily_search", "TavilySearch")),
        *((name, "Wikipedia", None) for name in ("wikipedia", "wikipedia_search")),
        *((name, "GoogleScholar", None) for name in ("google_scholar", "google_scholar_search")),
        *(("execute_sql", "ExeSQL", None), ("code_exec", "CodeExec", None), ("web_crawler", "Crawler", None)),
    ],
)
def test_tools_have_the_names_of_ragflow_1(name: str, component: str, weight: float | None) -> None:
    (first, preset), (second, params) = params_of_tools(tools=[name, {**named(name), "params": {"top_n": 3}}])
    assert (first, second) == (component, component)
    if weight is not None:
        assert (preset["keywords_similarity_weight"], preset["top_n"], params["top_n"]) == (weight, 12, 3)
        assert preset["function_name"] == name.lower().replace("bm25s", "bm25_s")


def test_the_params_of_a_tool_that_is_only_named_are_in_tool_params() -> None:
    ((name, params),) = params_of_tools(tools=["retrieval"], tool_params={"retrieval": {"dataset_ids": ["d1"]}})
    assert (name, params["dataset_ids"]) == ("Retrieval", ["d1"])


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


def server_entry(id_: Any, *tools: str) -> dict[str, Any]:
    return {"mcp_id": id_, "tools": {tool: {} for tool in tools}}


def problems(servers: Any, *mcp: Any, tools: Any = ()) -> list[tuple[str, str, str]]:
    """Return code, pointer and text of each diagnostic of an agent with tools of servers."""
    agent = node("Agent", {"llm_id": "m@T", "mcp": list(mcp), "tools": list(tools)}, ["out"])
    document = canvas({"a": agent, "out": node("Message", {"content": ["{a@content}"]})})
    plan, diagnostics = check_canvas(document, CATALOG, Canvases(servers=servers))
    assert (plan is None) == bool(diagnostics)
    assert {d.severity for d in diagnostics} <= {"error"}
    return [(d.code, d.pointer, f"{d.message} {d.hint}") for d in diagnostics]


def test_an_unknown_server_is_reported_once_at_its_id() -> None:
    known = server_entry("tickets", "x")
    ((code, pointer, text),) = problems({"tickets": None}, known, server_entry(" ticket ", "find", "close"))
    assert (code, pointer) == ("mcp-server-unknown", "/components/a/obj/params/mcp/1/mcp_id")
    assert "'ticket'" in text
    assert "Did you mean tickets?" in text
    assert '[mcp."far"] to the settings, with its url' in problems({}, server_entry("far", "find"))[0][2]


def test_a_forbidden_tool_is_reported_with_its_pointer() -> None:
    ((code, pointer, text),) = problems(
        {"s": ("find",), "all": None}, server_entry("s", "find", "a/b"), server_entry("all", "a/b")
    )
    assert (code, pointer) == ("tool-forbidden", "/components/a/obj/params/mcp/0/tools/a~1b")
    assert 'not in allow of [mcp."s"]' in text
    assert [entry[0] for entry in problems({"s": ()}, server_entry("s", "t"))] == ["tool-forbidden"]


def test_nested_agents_are_checked() -> None:
    inner = {"component_name": "Agent", "name": "In", "params": {"llm_id": "m@T", "mcp": [server_entry("s", "t")]}}
    (problem,) = problems({}, tools=[inner])
    assert problem[1] == "/components/a/obj/params/tools/0/params/mcp/0/mcp_id"


def test_nothing_is_reported_if_servers_are_unknown_or_not_needed() -> None:
    assert problems(None, server_entry("s", "t")) == []
    assert problems({}, server_entry("s")) == []


OWN = iteration({"a": text(["w"]), "w": assign("a@result", "ii@item")}, {}, max_concurrency=4)
SHARED = {"a": text(["w"]), "w": assign("env.x", "ii@item")}
TWINS = {"nodes": [{"id": id_, "data": {"name": "Twin"}} for id_ in "ab"]}


@each_row(
    ("document", "code", "expected"),
    [
        (canvas({**OWN, **out("x")}), "region-parallel", []),  # rounds may write their own values
        (canvas({**iteration(SHARED, {}, max_concurrency=4), **out("x")}), "region-parallel", ["/w: .*env.x"]),
        (canvas({**iteration(SHARED, {}, max_concurrency=1), **out("x")}), "region-parallel", []),
        (canvas({"a": text(), "island": text()}), "node-unreachable", ["^warning island "]),
        (canvas({"a": text(["b"]), "b": text()}, graph=TWINS), "title-duplicate", [" b .*Twin"]),
    ],
)
def test_what_is_wrong_with_a_node_is_reported(document: dict[str, Any], code: str, expected: list[str]) -> None:
    assert_findings(document, code, *expected)
