from typing import Any

from ragflow_lg.dsl_compiler import check_canvas
from tests.fakes.canvas import CATALOG, canvas, diagnostics_of, node, text
from tests.fakes.policies import Canvases
from tests.fakes.regions import assign, iteration, out


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


def test_parallel_rounds_may_write_their_own_values() -> None:
    body = {"a": text(["w"]), "w": assign("a@result", "ii@item")}
    assert not diagnostics_of(canvas({**iteration(body, {}, max_concurrency=4), **out("x")}), "region-parallel")


def test_a_write_to_a_shared_value_is_reported() -> None:
    body = {"a": text(["w"]), "w": assign("env.x", "ii@item")}
    (diagnostic,) = diagnostics_of(canvas({**iteration(body, {}, max_concurrency=4), **out("x")}), "region-parallel")
    assert (diagnostic.node, diagnostic.pointer) == ("w", "/components/w")
    assert "env.x" in diagnostic.message
    assert not diagnostics_of(canvas({**iteration(body, {}, max_concurrency=1), **out("x")}), "region-parallel")


def test_an_unreachable_node_is_a_warning() -> None:
    (diagnostic,) = diagnostics_of(canvas({"a": text(), "island": text()}), "node-unreachable")
    assert (diagnostic.node, diagnostic.severity) == ("island", "warning")


def test_a_second_node_with_a_title_is_reported() -> None:
    graph = {"nodes": [{"id": "a", "data": {"name": "Twin"}}, {"id": "b", "data": {"name": "Twin"}}]}
    (diagnostic,) = diagnostics_of(canvas({"a": text(["b"]), "b": text()}, graph=graph), "title-duplicate")
    assert (diagnostic.node, diagnostic.title) == ("b", "Twin")
