from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from ragflow_lg.agents.mcp_tools import mcp_findings
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.runs.runner import Run
from ragflow_lg.services.tool_policies import ToolPermits, ToolPolicies
from ragflow_lg.services.tool_server import ServerAnswer
from tests.fakes.agents import AgentTurn, play_agent, tool_calls
from tests.fakes.canvas import node
from tests.fakes.mcp_servers import FakeServer, servers_of, text_of, tiny
from tests.fakes.regions import runner_of
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services

ADD = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}


def listed(id_: str = "s", **tools: Any) -> dict[str, Any]:
    return {"mcp_id": id_, "tools": tools}


async def told(answer: Any, arguments: Any = None, schema: Any = None) -> str:
    """Give what a model is told of one call."""
    entry = listed(t={"description": "d", "inputSchema": schema or {}})
    played = await play_agent(
        [tool_calls(("t_0", arguments or {})), Reply("done")],
        {"tools": [], "mcp": [entry]},
        servers={"s": FakeServer(answer)},
    )
    assert played.outputs["content"].endswith("done")
    return played.tool_results[0]


async def test_tools_are_numbered_behind_those_of_the_canvas_across_servers() -> None:
    first, second = FakeServer(ServerAnswer(("3",))), FakeServer()
    mcp = [listed(add={"description": "adds", "inputSchema": ADD}, echo={}), listed("z", add={"parameters": {}})]
    played = await play_agent(
        [tool_calls(("add_1", {"a": 1, "b": 2}), ("add_3", {"x": "any"})), Reply("3")],
        {"mcp": mcp, "custom_header": {"X-Team": "a", "X-Size": 3}},
        servers={"s": first, "z": second},
    )
    shown = played.model.requests[0][1].tools
    assert [tool.name for tool in shown] == ["wikipedia_search_0", "add_1", "echo_2", "add_3"]
    assert (shown[1].description, shown[1].parameters) == ("adds", ADD)
    assert shown[2].parameters == {"type": "object", "properties": {}}
    own = {"X-Team": "a", "X-Size": "3"}
    assert first.calls == [("add", {"a": 1, "b": 2}, own)]
    assert second.calls == [("add", {"x": "any"}, own)]
    assert played.tool_results == ["3", "ok"]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"inputSchema": ADD}, ADD),
        ({"input_schema": ADD}, ADD),
        ({"parameters": ADD}, ADD),
        ({"inputSchema": None, "parameters": {"properties": ADD["properties"]}}, {**ADD, "required": []}),
        ({"parameters": {"a": {"type": "string", "required": True}, "b": {"required": False}}}, "wrapped"),
        ({"parameters": {"$ref": "#/$defs/x"}}, {"$ref": "#/$defs/x", "type": "object", "properties": {}}),
        ({"inputSchema": {"type": "object"}}, {"type": "object", "properties": {}}),
        ({}, {"type": "object", "properties": {}}),
    ],
)
async def test_a_schema_is_read_in_every_form(given: Any, shown: Any) -> None:
    played = await play_agent([Reply("x")], {"tools": [], "mcp": [listed(t=given)]}, servers={"s": FakeServer()})
    parameters = dict(played.model.requests[0][1].tools[0].parameters)
    if shown == "wrapped":
        shown = {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}
    assert {**parameters, "required": parameters.get("required", [])} == {"required": [], **shown}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (ServerAnswer(("a", "b")), "a\nb"),
        (ServerAnswer(("a",), ("image",)), "a"),
        (ServerAnswer(), "MCP server returned empty content."),
        (ServerAnswer(("",)), "MCP server returned empty content."),
        (ServerAnswer(structured={"n": 1}), '{"n": 1}'),
        (ServerAnswer((), ("image", "audio", "image")), "Unsupported content type: image, audio."),
        (ServerAnswer(("no luck",), is_error=True), "MCP server error: no luck"),
        (ServiceError("It broke off."), "Error calling tool 't': It broke off."),
        (SettingsError("closed"), "Error calling tool 't': closed."),
        (TimeoutError(10.0), "Timeout calling tool 't' (timeout=10)."),
    ],
)
async def test_every_answer_is_a_result(answer: Any, text: str) -> None:
    assert await told(answer) == text


@pytest.mark.parametrize(
    ("schema", "arguments", "problem"),
    [
        (ADD, {"a": "1", "b": 2}, "Invalid arguments: a: '1' is not of type 'integer'."),
        (ADD, {}, "'a' is a required property. 'b' is a required property."),
        ({"$ref": "http://evil.test/schema"}, {"a": 1}, "refers to something outside"),
        ({"$ref": "#"}, {"a": 1}, "refers to itself endlessly"),
    ],
)
async def test_arguments_are_checked_before_the_call(schema: Any, arguments: Any, problem: str) -> None:
    assert problem in await told(AssertionError("called"), arguments, schema)


async def test_a_pattern_of_the_canvas_is_not_run() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(a+)+$"}}}
    assert await told(ServerAnswer(("ok",)), {"a": "a" * 60 + "!"}, schema) == "ok"


async def failing(mcp: Any, servers: Any) -> str:
    played: AgentTurn = await play_agent([Reply("x")], {"mcp": mcp}, servers=servers, is_shown=False)
    assert played.model.requests == []
    return played.run.error or ""


async def test_a_server_that_is_not_in_the_settings_is_named_with_the_setting() -> None:
    error = await failing([listed("wetter", t={})], {})
    assert "no MCP server 'wetter' in the settings" in error
    assert '[mcp."wetter"]' in error


async def test_a_tool_that_the_settings_do_not_allow_is_an_error() -> None:
    assert "do not allow 't'" in await failing([listed(t={})], {"s": FakeServer(denied="t")})


async def test_rules_of_the_deployment_know_a_tool_by_its_server() -> None:
    params = {"tools": [], "mcp": [listed(a={}, b={})]}
    policies = ToolPolicies(ToolPermits(deny=("mcp:s/b",)))
    played = await play_agent([Reply("hi")], params, servers={"s": FakeServer()}, policies=policies)
    assert [tool.name for tool in played.model.requests[0][1].tools] == ["a_0"]


async def test_an_agent_within_an_agent_calls_its_own() -> None:
    inner = {"component_name": "Agent", "name": "In", "params": {"llm_id": "m@T", "mcp": [listed(t={})]}}
    replies = [tool_calls(("In_0", {"user_prompt": "go"})), tool_calls(("t_0", {})), Reply("inner"), Reply("outer")]
    server = FakeServer()
    played = await play_agent(replies, {"tools": [inner]}, servers={"s": server}, is_shown=False)
    assert (played.outputs["content"], len(server.calls)) == ("outer", 1)


async def test_a_cancel_of_the_run_ends_the_call_at_once() -> None:
    async with servers_of(s=tiny()) as servers:
        await text_of(servers, "echo")  # the session is open
        model = ScriptedModel([tool_calls(("wait_0", {}))])
        asked = {"llm_id": "m@T", "prompts": "{sys.query}", "mcp": [listed(wait={})]}
        services = fake_services(models=OneModel(model), servers=servers)
        run = runner_of({"a": node("Agent", asked)}, services=services).start("s", {"query": "q"})
        reading = asyncio.create_task(_read(run))
        while not servers["s"].is_busy:
            await asyncio.sleep(0.001)
        started = time.monotonic()
        run.cancel()
        await reading
        assert (run.status, time.monotonic() - started < 0.5) == ("cancelled", True)
        assert await text_of(servers, "echo", a=1) == '{"a": 1}'


async def _read(run: Run) -> None:
    async for _ in run:
        pass


@pytest.mark.parametrize(
    ("entry", "path", "severity"),
    [
        (5, ("mcp", 0), "error"),
        ({}, ("mcp", 0, "mcp_id"), "error"),
        ({"mcp_id": 5}, ("mcp", 0, "mcp_id"), "error"),
        ({"mcp_id": " "}, ("mcp", 0, "mcp_id"), "error"),
        ({"mcp_id": "s", "tools": ["t"]}, ("mcp", 0, "tools"), "error"),
        (listed(t="x"), ("mcp", 0, "tools", "t"), "error"),
        (listed(t={"description": 5}), ("mcp", 0, "tools", "t", "description"), "error"),
        (listed(t={"inputSchema": "x"}), ("mcp", 0, "tools", "t", "inputSchema"), "error"),
        (listed(t={"parameters": [1]}), ("mcp", 0, "tools", "t", "parameters"), "error"),
        (listed(t={"inputSchema": {"type": "array"}}), ("mcp", 0, "tools", "t", "inputSchema", "type"), "error"),
        (listed(t={"inputSchema": {"properties": {"a": {"type": "nope"}}}}), ("mcp", 0, "tools", "t"), "warning"),
    ],
)
def test_what_cannot_be_is_told_where_it_stands(entry: Any, path: Any, severity: str) -> None:
    (finding,) = mcp_findings([entry])
    assert (finding.code, finding.path, finding.severity) == ("params-invalid", path, severity)


@pytest.mark.parametrize("entry", [{"mcp_id": "s"}, {"mcp_id": "s", "tools": {}}, listed(t={"parameters": {}})])
def test_what_canvases_hold_is_fine(entry: Any) -> None:
    assert list(mcp_findings([entry])) == []
