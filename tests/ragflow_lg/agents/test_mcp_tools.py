import asyncio
import time
from typing import Any

import pytest

from ragflow_lg.agents.mcp_tools import mcp_findings
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.runs.runner import Run
from ragflow_lg.services.tool_policies import ServerAnswer, ToolPermits, ToolPolicies
from tests.fakes.agents import AgentTurn, play_agent, tool_calls
from tests.fakes.canvas import node
from tests.fakes.mcp_servers import FakeServer, servers_of, text_of, tiny
from tests.fakes.regions import runner_of
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.harness.rows import each_row

ADD = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}


def server_entry(id_: str = "s", **tools: Any) -> dict[str, Any]:
    return {"mcp_id": id_, "tools": tools}


async def call_result(answer: Any, arguments: Any = None, schema: Any = None) -> str:
    """Return the result of one call as the model sees it."""
    entry = server_entry(t={"description": "d", "inputSchema": schema or {}})
    turn = await play_agent(
        [tool_calls(("t_0", arguments or {})), Reply("done")],
        {"tools": [], "mcp": [entry]},
        servers={"s": FakeServer(answer)},
    )
    assert turn.outputs["content"].endswith("done")
    return turn.tool_results[0]


async def test_mcp_tools_are_numbered_after_those_of_the_canvas_across_servers() -> None:
    first, second = FakeServer(ServerAnswer(("3",))), FakeServer()
    mcp = [
        server_entry(add={"description": "adds", "inputSchema": ADD}, echo={}),
        server_entry("z", add={"parameters": {}}),
    ]
    turn = await play_agent(
        [tool_calls(("add_1", {"a": 1, "b": 2}), ("add_3", {"x": "any"})), Reply("3")],
        {"mcp": mcp, "custom_header": {"X-Team": "a", "X-Size": 3}},
        servers={"s": first, "z": second},
    )
    expected = turn.model.requests[0][1].tools
    assert [tool.name for tool in expected] == ["wikipedia_search_0", "add_1", "echo_2", "add_3"]
    assert (expected[1].description, expected[1].parameters) == ("adds", ADD)
    assert expected[2].parameters == {"type": "object", "properties": {}}
    headers = {"X-Team": "a", "X-Size": "3"}
    assert first.calls == [("add", {"a": 1, "b": 2}, headers)]
    assert second.calls == [("add", {"x": "any"}, headers)]
    assert turn.tool_results == ["3", "ok"]


@each_row(
    ("declaration", "expected"),
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
async def test_a_schema_is_read_in_every_form(declaration: Any, expected: Any) -> None:
    turn = await play_agent(
        [Reply("x")], {"tools": [], "mcp": [server_entry(t=declaration)]}, servers={"s": FakeServer()}
    )
    parameters = dict(turn.model.requests[0][1].tools[0].parameters)
    if expected == "wrapped":
        expected = {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}
    assert {**parameters, "required": parameters.get("required", [])} == {"required": [], **expected}


@each_row(
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
async def test_every_answer_of_a_server_becomes_a_result(answer: Any, text: str) -> None:
    assert await call_result(answer) == text


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
    assert problem in await call_result(AssertionError("called"), arguments, schema)


async def test_a_pattern_in_a_schema_is_not_evaluated() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(a+)+$"}}}
    assert await call_result(ServerAnswer(("ok",)), {"a": "a" * 60 + "!"}, schema) == "ok"


async def setup_error(mcp: Any, servers: Any) -> str:
    turn: AgentTurn = await play_agent([Reply("x")], {"mcp": mcp}, servers=servers, is_shown=False)
    assert turn.model.requests == []
    return turn.run.error or ""


async def test_an_unknown_server_is_reported_with_its_setting() -> None:
    error = await setup_error([server_entry("wetter", t={})], {})
    assert "no MCP server 'wetter' in the settings" in error
    assert '[mcp."wetter"]' in error


async def test_a_tool_that_the_settings_do_not_allow_is_an_error() -> None:
    assert "do not allow 't'" in await setup_error([server_entry(t={})], {"s": FakeServer(denied="t")})


async def test_permits_of_the_deployment_match_tools_by_server() -> None:
    params = {"tools": [], "mcp": [server_entry(a={}, b={})]}
    policies = ToolPolicies(ToolPermits(deny=("mcp:s/b",)))
    turn = await play_agent([Reply("hi")], params, servers={"s": FakeServer()}, policies=policies)
    assert [tool.name for tool in turn.model.requests[0][1].tools] == ["a_0"]


async def test_a_nested_agent_calls_its_own_mcp_tools() -> None:
    inner = {"component_name": "Agent", "name": "In", "params": {"llm_id": "m@T", "mcp": [server_entry(t={})]}}
    replies = [tool_calls(("In_0", {"user_prompt": "go"})), tool_calls(("t_0", {})), Reply("inner"), Reply("outer")]
    server = FakeServer()
    turn = await play_agent(replies, {"tools": [inner]}, servers={"s": server}, is_shown=False)
    assert (turn.outputs["content"], len(server.calls)) == ("outer", 1)


async def test_cancelling_the_run_ends_the_call_at_once() -> None:
    async with servers_of(s=tiny()) as servers:
        await text_of(servers, "echo")  # the session is open
        model = ScriptedModel([tool_calls(("wait_0", {}))])
        params = {"llm_id": "m@T", "prompts": "{sys.query}", "mcp": [server_entry(wait={})]}
        services = fake_services(models=OneModel(model), servers=servers)
        run = runner_of({"a": node("Agent", params)}, services=services).start("s", {"query": "q"})
        reading = asyncio.create_task(_read(run))
        while not servers["s"].is_busy:
            await asyncio.sleep(0.001)
        started = time.monotonic()
        run.cancel()
        await reading
        assert (run.status, time.monotonic() - started < 20) == ("cancelled", True)
        assert await text_of(servers, "echo", a=1) == '{"a": 1}'


async def _read(run: Run) -> None:
    async for _ in run:
        pass


@each_row(
    ("entry", "path", "severity"),
    [
        (5, ("mcp", 0), "error"),
        ({}, ("mcp", 0, "mcp_id"), "error"),
        ({"mcp_id": 5}, ("mcp", 0, "mcp_id"), "error"),
        ({"mcp_id": " "}, ("mcp", 0, "mcp_id"), "error"),
        ({"mcp_id": "s", "tools": ["t"]}, ("mcp", 0, "tools"), "error"),
        (server_entry(t="x"), ("mcp", 0, "tools", "t"), "error"),
        (server_entry(t={"description": 5}), ("mcp", 0, "tools", "t", "description"), "error"),
        (server_entry(t={"inputSchema": "x"}), ("mcp", 0, "tools", "t", "inputSchema"), "error"),
        (server_entry(t={"parameters": [1]}), ("mcp", 0, "tools", "t", "parameters"), "error"),
        (server_entry(t={"inputSchema": {"type": "array"}}), ("mcp", 0, "tools", "t", "inputSchema", "type"), "error"),
        (server_entry(t={"inputSchema": {"properties": {"a": {"type": "nope"}}}}), ("mcp", 0, "tools", "t"), "warning"),
    ],
)
def test_invalid_entries_are_reported_with_their_path(entry: Any, path: Any, severity: str) -> None:
    (finding,) = mcp_findings([entry])
    assert (finding.code, finding.path, finding.severity) == ("params-invalid", path, severity)


@pytest.mark.parametrize("entry", [{"mcp_id": "s"}, {"mcp_id": "s", "tools": {}}, server_entry(t={"parameters": {}})])
def test_valid_entries_have_no_findings(entry: Any) -> None:
    assert list(mcp_findings([entry])) == []
