import time
from typing import Any

import pytest

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.decorator import component
from ragflow_lg.component.registry import Registry
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams
from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.dsl_compiler.compiler import run_passes
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.passes.components_from_graph import components_from_graph
from tests.fakes.canvas import CATALOG, assert_findings, canvas, diagnostics_of, node, plan_of, text
from tests.harness.rows import each_row


def test_a_simplified_switch_is_rewritten() -> None:
    cases = [{"condition": "{sys.conversation_turns} > 5 and {sys.query} contains help", "to": ["a"]}]
    plan = plan_of(canvas({"s": node("Switch", {"cases": cases, "default": ["b"]}), "a": text(), "b": text()}))
    assert [route.targets for route in plan.nodes[NodeId("s")].routes] == [("a",), ("b",)]


def test_a_simplified_categorize_with_a_map_as_downstream_is_rewritten() -> None:
    items = [{"key": "order", "content": "{sys.query}", "examples": "where\nwhen"}, {"key": "other", "examples": ""}]
    component = {**node("Categorize", {"items": items}), "downstream": {"order": ["a"], "other": "b"}}
    plan = plan_of(canvas({"c": component, "a": text(), "b": text()}))
    assert [(r.label, r.targets) for r in plan.nodes[NodeId("c")].routes] == [("order", ("a",)), ("other", ("b",))]


def agent(**params: Any) -> dict[str, Any]:
    return canvas({"l": node("Agent", {"sys_prompt": "x", **params}, ["m"]), "m": node("Message", {"content": "x"})})


BLANKS: list[Any] = ["", None, []]
OLD_LLM = {"l": node("LLM", {"system_prompt": "x"}, ["m"]), "m": node("Message", {"content": "x"})}


@each_row(
    ("document", "expected"),
    [
        (canvas(OLD_LLM), ["^info l "]),
        *((agent(user_prompt=blank, prompts="y"), []) for blank in BLANKS),
        (agent(system_prompt="gone"), [r" Agent has a different shape: system_prompt was omitted\. "]),
    ],
)
def test_a_rewrite_is_reported_unless_nothing_is_lost(document: dict[str, Any], expected: list[str]) -> None:
    assert_findings(document, "document-rewritten", *expected)


def test_the_tools_of_an_older_agent_are_read() -> None:
    tools = [{"component_name": "TavilySearch", "params": {"api_key": "k"}}]
    agent = node("Agent", {"llm_id": "m@T", "llm_enabled_tools": tools}, ["m"])
    document = canvas({"l": agent, "m": node("Message", {"content": "x"})})
    assert [tool.spec.name for tool in plan_of(document).nodes[NodeId("l")].tools] == ["TavilySearch"]
    assert diagnostics_of(document, "document-rewritten")[0].message.endswith("llm_enabled_tools was read as tools.")
    agent["obj"]["params"]["tools"] = [{"component_name": "Wikipedia", "params": {}}]
    assert [tool.spec.name for tool in plan_of(document).nodes[NodeId("l")].tools] == ["Wikipedia"]
    assert len(diagnostics_of(document, "params-unknown")) == 1


def test_the_named_item_of_a_simplified_iteration_is_rewritten() -> None:
    components = {
        "it": node("Iteration", {"items": "{sys.files}", "item_var": "file"}),
        "body": text([], "{file} {it@file} {other}", parent_id="it"),
        "outside": text([], "{file}"),
    }
    draft = run_passes(Draft(canvas(components), "", CATALOG), Reporter())
    assert draft.components["body"].params["script"] == "{item} {item} {other}"
    assert draft.components["outside"].params["script"] == "{file}"
    iteration: Any = draft.nodes[NodeId("it")].params
    assert iteration.items_ref.text == "sys.files"


def test_a_simplified_loop_is_rewritten() -> None:
    components = {"l": node("Loop", {"condition": "{attempts} < 3", "max_iterations": 10}), "b": text(parent_id="l")}
    draft = run_passes(Draft(canvas(components), "", CATALOG), Reporter())
    params: Any = draft.nodes[NodeId("l")].params
    assert params.maximum_loop_count == 10
    (condition,) = params.loop_termination_condition
    assert (str(condition.variable), condition.operator, condition.value) == ("env.attempts", "≥", "3")


def test_a_named_item_is_valid_inside_loops_but_not_inside_another_iteration() -> None:
    components = {
        "it": node("Iteration", {"items": "{sys.files}", "item_var": "file"}),
        "loop": node("Loop", {"maximum_loop_count": 1}, parent_id="it"),
        "body": text([], "{file}", parent_id="loop"),
        "inner": node("Iteration", {"items": "{sys.history}"}, parent_id="it"),
        "deep": text([], "{file}", parent_id="inner"),
    }
    draft = run_passes(Draft(canvas(components), "", CATALOG), Reporter())
    assert draft.components["body"].params["script"] == "{item}"
    assert draft.components["deep"].params["script"] == "{file}"


def test_named_items_take_linear_time() -> None:
    bodies = {f"b{i}": text([], "{ " * 50, parent_id=f"it{i}") for i in range(1000)}
    owners = {f"it{i}": node("Iteration", {"items": "{sys.files}", "item_var": "f"}) for i in range(1000)}
    start_s = time.process_time()
    check_canvas(canvas({**owners, **bodies, "c": text([], "{ " * 200_000, parent_id="it0")}), CATALOG)
    assert time.process_time() - start_s < 5


def test_a_renamed_component_gets_a_new_id() -> None:
    document = canvas(
        {
            "PDFGenerator:Old": node("PDFGenerator", {"content": "x"}, ["a"]),
            "a": text([], "{PDFGenerator:Old@download} {{ PDFGenerator:Old@size }}"),
        }
    )
    plan, _ = check_canvas(document, CATALOG)
    assert plan is not None
    assert plan.nodes[NodeId("DocGenerator:Old")].spec.name == "DocGenerator"
    assert not diagnostics_of(document, "reference-unknown-node")
    assert diagnostics_of(document, "document-rewritten")


def test_an_id_stays_if_the_new_one_exists() -> None:
    document = canvas({"PDFGenerator:x": text(["DocGenerator:x"]), "DocGenerator:x": text()})
    assert check_canvas(document, CATALOG)[0] is not None


def test_a_text_of_braces_takes_linear_time() -> None:
    document = canvas(
        {"PDFGenerator:x": text(), "a": text([], "{ " * 100_000 + "{" * 100_000)}, ["PDFGenerator:x", "a"]
    )
    start_s = time.process_time()
    check_canvas(document, CATALOG)
    assert time.process_time() - start_s < 5


@pytest.mark.parametrize(("engine", "tool"), [("tavily", "TavilySearch"), (" DuckDuckGo ", "DuckDuckGo")])
def test_a_web_search_becomes_the_tool_of_its_engine(engine: str, tool: str) -> None:
    entry = {"component_name": "WebSearch", "name": "Web", "params": {"engine": engine, "api_key": "k"}}
    agent = node("Agent", {"llm_id": "m@T", "tools": [entry]}, ["w"])
    search = node("WebSearch", {"engine": engine, "api_key": "k"})
    plan, diagnostics = check_canvas(canvas({"a": agent, "w": search}), CATALOG)
    assert plan is not None
    search_node, agent_node = plan.nodes[NodeId("w")], plan.nodes[NodeId("a")]
    assert (search_node.spec.name, agent_node.tools[0].spec.name) == (tool, tool)
    assert "document-rewritten" in {d.code for d in diagnostics}


@pytest.mark.parametrize("params", [{"engine": "altavista"}, {}, {"engine": None}, {"engine": ["tavily"]}])
def test_a_web_search_with_an_unknown_engine_is_rejected(params: dict[str, object]) -> None:
    entry = {"component_name": "WebSearch", "name": "Web", "params": params}
    agent = node("Agent", {"llm_id": "m@T", "tools": [entry]}, ["w"])
    plan, diagnostics = check_canvas(canvas({"a": agent, "w": node("WebSearch", params)}), CATALOG)
    assert plan is None
    errors = {d.code: d for d in diagnostics if d.severity == "error"}
    assert set(errors) == {"component-unknown", "tool-unknown"}
    assert "Set engine to one of: arxiv, duckduckgo" in errors["tool-unknown"].hint


@each_row("name", ["Answer", "Concentrator", "Generate", "KeywordExtract", "Relevant", "RewriteQuestion", "Template"])
def test_each_old_component_is_reported_at_its_place(name: str) -> None:
    summary, *others = diagnostics_of(canvas({"old": node(name), "answer": node("Answer")}), "legacy-component")
    assert (summary.pointer, summary.severity) == ("", "warning")
    assert "/components/old" in {diagnostic.pointer for diagnostic in others}
    assert all("ragflow-lg canvas upgrade" in diagnostic.hint for diagnostic in others)


def test_what_may_behave_differently_is_a_warning() -> None:
    document = canvas({"a": node("Answer", {}, ["b"]), "b": node("Baidu", {"top_n": 1}, ["a"])})
    found = {d.pointer: d.severity for d in diagnostics_of(document, "legacy-component")}
    assert found["/components/b"] == "warning"
    assert found["/components/a"] == "info"


def test_a_component_of_a_package_with_an_old_name_is_not_an_old_one() -> None:
    class Outputs(ComponentOutputs):
        """Nothing."""

    @component("Answer", params=ComponentParams, outputs=Outputs, description="Answers.")
    async def answer(ctx: object, params: object) -> Outputs:
        return Outputs()

    registry = Registry()
    for spec in CATALOG:
        registry.add(spec)
    registry.add(answer)
    plan, diagnostics = check_canvas(canvas({"a": node("Answer")}), registry)
    assert plan is not None
    assert "legacy-component" not in {d.code for d in diagnostics}


def graph_node(id_: str, label: str, form: Any = None, **more: Any) -> dict[str, Any]:
    return {"id": id_, "data": {"label": label, "name": f"{label} title", "form": form}, **more}


def edge(source: str, target: str, handle: str = "start") -> dict[str, Any]:
    return {"source": source, "target": target, "sourceHandle": handle, "targetHandle": "end"}


CONDITION = {"items": [{"cpn_id": "sys.query", "operator": "not empty", "value": ""}]}


def test_nodes_and_edges_become_components() -> None:
    graph = {
        "nodes": [
            graph_node("begin", "Begin"),
            graph_node("s", "Switch", {"conditions": [CONDITION]}),
            graph_node("m", "Message", {"content": ["m"]}),
            graph_node("e", "Message", {"content": ["e"]}),
            graph_node("note", "Note"),
        ],
        "edges": [edge("begin", "s"), edge("s", "m", "Case 1"), edge("s", "e", "end_cpn_ids")],
    }
    plan = plan_of({"graph": graph})
    assert list(plan.nodes) == ["begin", "s", "m", "e"]
    assert [route.targets for route in plan.nodes[NodeId("s")].routes] == [("m",), ("e",)]
    assert plan.nodes[NodeId("m")].title == "Message title"
    assert plan.nodes[NodeId("m")].pointer == "/graph/nodes/2"
    assert diagnostics_of({"graph": graph}, "document-rewritten")[0].severity == "info"


def test_category_targets_come_from_handles() -> None:
    form = {"items": [{"name": "yes", "uuid": "u1", "examples": [{"value": "y"}]}, {"name": "no", "uuid": "u2"}]}
    graph = {
        "nodes": [
            graph_node("begin", "Begin"),
            graph_node("c", "Categorize", form),
            graph_node("m", "Message", {"content": ["m"]}),
        ],
        "edges": [edge("begin", "c"), edge("c", "m", "u1"), edge("c", "m", "u2")],
    }
    assert [(r.label, r.targets) for r in plan_of({"graph": graph}).nodes[NodeId("c")].routes] == [
        ("yes", ("m",)),
        ("no", ("m",)),
    ]


def test_agents_below_an_agent_become_its_tools() -> None:
    graph = {
        "nodes": [
            graph_node("top", "Agent", {}),
            graph_node("sub", "Agent", {"tools": ["t"]}),
            graph_node("deep", "Agent", {}),
        ],
        "edges": [
            edge("top", "sub", "agentBottom"),
            edge("sub", "deep", "agentBottom"),
            edge("deep", "top", "agentBottom"),
        ],
    }
    components = components_from_graph({"graph": graph}, "", Reporter())
    assert [c.id for c in components] == []  # a ring of tools has no top
    graph["edges"].pop()
    (top,) = components_from_graph({"graph": graph}, "", Reporter())
    (tool,) = top.params["tools"]
    assert (tool["id"], tool["params"]["tools"][0], tool["params"]["tools"][1]["id"]) == ("sub", "t", "deep")


def test_a_malformed_graph_gives_diagnostics() -> None:
    graphs: list[Any] = [3, [], {"nodes": 3}, {"nodes": [1, {}, {"id": "a", "data": 3}], "edges": [1, {"source": {}}]}]
    for graph in graphs:
        assert check_canvas({"graph": graph}, CATALOG)[0] is None
