import asyncio
from typing import Any

from ragflow_lg.agents.mcp_tools import mcp_findings
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.services.tool_policies import ServerAnswer, ToolPermits, ToolPolicies
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.canvas import node
from tests.fakes.mcp_servers import FakeServer, servers_of, text_of, tiny
from tests.fakes.regions import play_run, runner_of
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.harness.rows import each_row

ADD = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}


def server_entry(id_: str = "s", **tools: Any) -> dict[str, Any]:
    return {"mcp_id": id_, "tools": tools}


async def call_result(answer: Any, arguments: Any = None, schema: Any = None) -> str:
    """Return the result of one call as the model sees it."""
    params = {"tools": [], "mcp": [server_entry(t={"description": "d", "inputSchema": schema or {}})]}
    replies = [tool_calls(("t_0", arguments or {})), Reply("done")]
    turn = await play_agent(replies, params, servers={"s": FakeServer(answer)})
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
    params = {"tools": [], "mcp": [server_entry(t=declaration)]}
    turn = await play_agent([Reply("x")], params, servers={"s": FakeServer()})
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
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(a+)+$"}}}
    assert await call_result(answer, {"a": "a" * 60 + "!"}, schema) == text  # no pattern is evaluated


@each_row(
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


@each_row(
    ("id_", "servers", "problems"),
    [
        ("wetter", {}, ["no MCP server 'wetter' in the settings", '[mcp."wetter"]']),
        ("s", {"s": FakeServer(denied="t")}, ["do not allow 't'"]),
    ],
)
async def test_what_the_settings_do_not_have_or_allow_is_an_error(id_: str, servers: Any, problems: list[str]) -> None:
    turn = await play_agent([Reply("x")], {"mcp": [server_entry(id_, t={})]}, servers=servers, is_shown=False)
    assert turn.model.requests == []
    assert [problem for problem in problems if problem not in (turn.run.error or "")] == []


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
        reading = asyncio.create_task(play_run(run))
        while not servers["s"].is_busy:
            await asyncio.sleep(0.001)
        run.cancel()
        async with asyncio.timeout(60):
            await reading
        assert run.status == "cancelled"
        assert await text_of(servers, "echo", a=1) == '{"a": 1}'


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
