from __future__ import annotations

from typing import Any

from ragflow_lg.dsl_compiler import check_canvas
from tests.fakes.canvas import CATALOG, canvas, node
from tests.fakes.policies import Canvases


def listed(id_: Any, *tools: str) -> dict[str, Any]:
    return {"mcp_id": id_, "tools": {tool: {} for tool in tools}}


def told(servers: Any, *mcp: Any, tools: Any = ()) -> list[tuple[str, str, str]]:
    agent = node("Agent", {"llm_id": "m@T", "mcp": list(mcp), "tools": list(tools)}, ["out"])
    document = canvas({"a": agent, "out": node("Message", {"content": ["{a@content}"]})})
    plan, found = check_canvas(document, CATALOG, Canvases(servers=servers))
    assert (plan is None) == bool(found)
    assert {d.severity for d in found} <= {"error"}
    return [(d.code, d.pointer, f"{d.message} {d.hint}") for d in found]


def test_a_server_that_the_settings_do_not_have_is_told_once_at_its_id() -> None:
    known = listed("tickets", "x")
    ((code, pointer, text),) = told({"tickets": None}, known, listed(" ticket ", "find", "close"))
    assert (code, pointer) == ("mcp-server-unknown", "/components/a/obj/params/mcp/1/mcp_id")
    assert "'ticket'" in text
    assert "Did you mean tickets?" in text
    assert '[mcp."far"] with its url' in told({}, listed("far", "find"))[0][2]


def test_a_tool_that_the_settings_do_not_allow_is_told_where_it_stands() -> None:
    ((code, pointer, text),) = told({"s": ("find",), "all": None}, listed("s", "find", "a/b"), listed("all", "a/b"))
    assert (code, pointer) == ("tool-forbidden", "/components/a/obj/params/mcp/0/tools/a~1b")
    assert 'not in allow of [mcp."s"]' in text
    assert [entry[0] for entry in told({"s": ()}, listed("s", "t"))] == ["tool-forbidden"]


def test_agents_within_agents_are_checked_too() -> None:
    inner = {"component_name": "Agent", "name": "In", "params": {"llm_id": "m@T", "mcp": [listed("s", "t")]}}
    (found,) = told({}, tools=[inner])
    assert found[1] == "/components/a/obj/params/tools/0/params/mcp/0/mcp_id"


def test_where_servers_are_not_known_or_not_needed_nothing_is_told() -> None:
    assert told(None, listed("s", "t")) == []
    assert told({}, listed("s")) == []


def test_the_deployment_is_asked_only_if_need_be() -> None:
    class Asked(Canvases):
        def __getattribute__(self, name: str) -> Any:
            assert name != "servers"
            return super().__getattribute__(name)

    agent = node("Agent", {"llm_id": "m@T", "mcp": [listed("s")]})
    assert check_canvas(canvas({"a": agent}), CATALOG, Asked())[0] is not None
