import time
from typing import Any

import pytest

from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.dsl_compiler.compiler import run_passes
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft
from tests.fakes.canvas import CATALOG, canvas, diagnostics_of, node, plan_of, text


def test_a_simplified_switch_is_rewritten() -> None:
    cases = [{"condition": "{sys.conversation_turns} > 5 and {sys.query} contains help", "to": ["a"]}]
    plan = plan_of(canvas({"s": node("Switch", {"cases": cases, "default": ["b"]}), "a": text(), "b": text()}))
    assert [route.targets for route in plan.nodes[NodeId("s")].routes] == [("a",), ("b",)]


def test_a_simplified_categorize_with_a_map_as_downstream_is_rewritten() -> None:
    items = [{"key": "order", "content": "{sys.query}", "examples": "where\nwhen"}, {"key": "other", "examples": ""}]
    component = {**node("Categorize", {"items": items}), "downstream": {"order": ["a"], "other": "b"}}
    plan = plan_of(canvas({"c": component, "a": text(), "b": text()}))
    assert [(r.label, r.targets) for r in plan.nodes[NodeId("c")].routes] == [("order", ("a",)), ("other", ("b",))]


def test_a_rewrite_is_reported() -> None:
    document = canvas({"l": node("LLM", {"system_prompt": "x"}, ["m"]), "m": node("Message", {"content": "x"})})
    assert diagnostics_of(document, "document-rewritten")[0].node == "l"


@pytest.mark.parametrize("blank", ["", None, []])
def test_the_removal_of_an_empty_value_is_not_reported(blank: Any) -> None:
    agent = node("Agent", {"sys_prompt": "x", "user_prompt": blank, "prompts": "y"}, ["m"])
    assert diagnostics_of(canvas({"l": agent, "m": node("Message", {"content": "x"})}), "document-rewritten") == []


def test_a_removed_parameter_is_reported() -> None:
    agent = node("Agent", {"sys_prompt": "x", "system_prompt": "gone"}, ["m"])
    (diagnostic,) = diagnostics_of(canvas({"l": agent, "m": node("Message", {"content": "x"})}), "document-rewritten")
    assert diagnostic.message == "Agent has a different shape: system_prompt was omitted."


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
