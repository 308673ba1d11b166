import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import mcp
import pytest
from mcp import ClientSession
from mcp.client import streamable_http
from mcp.types import CallToolResult, TextContent

from tests.fakes.mcp_servers import over_http, servers_of, text_of
from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, FORM, MODEL, AppServer, says, start_app
from tests.server.waiting import wait_while

# Version 2 has another name, and httpx2.
McpError: Any = getattr(mcp, "McpError", None) or vars(mcp)["MCPError"]
web: Any = vars(streamable_http).get("httpx2", httpx)
CITY = {"name": "Where to?", "type": "line", "optional": False}
DAYS = {"name": "How long?", "type": "integer", "optional": True}
TRIP = says("{begin@days} days in {begin@city}", {"mode": "task", "inputs": {"city": CITY, "days": DAYS}})


@asynccontextmanager
async def serving(folder: Path, *replies: Reply, **more: Any) -> AsyncGenerator[AppServer]:
    async with start_app(folder, replies, mcp=True, **more) as server, server.app.state.mcp.running():
        yield server


@asynccontextmanager
async def client_of(server: AppServer, key: str = "") -> AsyncGenerator[ClientSession]:
    headers = {"Authorization": f"Bearer {key or server.key}"}
    async with (
        web.AsyncClient(headers=headers, timeout=20) as http,
        streamable_http.streamable_http_client(f"{server.url}/mcp", http_client=http) as streams,
        ClientSession(*streams[:2]) as session,
    ):
        await session.initialize()
        yield session


def is_error(result: CallToolResult) -> bool:
    return result.model_dump(by_alias=True)["isError"]


def answer_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


async def test_each_agent_is_a_tool_with_its_form(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        await server.agent(TRIP, title="Trip planner!")
        await server.agent(ECHO, title="回声")
        async with client_of(server) as client:
            trip, echo = (await client.list_tools()).model_dump(by_alias=True)["tools"]
            assert (trip["name"], trip["title"]) == ("Trip_planner", "Trip planner!")
            assert trip["inputSchema"]["required"] == ["city"]
            assert trip["inputSchema"]["properties"]["days"]["type"] == "integer"
            assert echo["name"].startswith("agent_")
            assert echo["inputSchema"]["required"] == ["query"]
            assert answer_of(await client.call_tool("Trip_planner", {"city": "Rome", "days": 3})) == "3 days in Rome"
            assert answer_of(await client.call_tool(echo["name"], {"query": "hi"})) == "You said hi"


async def test_wrong_calls_are_errors_of_the_tool(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        await server.agent(TRIP, title="Trip")
        await server.agent(FORM, title="Form")
        async with client_of(server) as client:
            for name, arguments, problem in [
                ("Trip", {"days": "many"}, "Invalid arguments: "),
                ("Trap", {}, "There is no tool 'Trap'"),
                ("Form", {"query": "x"}, "Which size?\n\nThe agent waits"),
            ]:
                result = await client.call_tool(name, arguments)
                assert is_error(result)
                assert problem in answer_of(result)


async def test_progress_and_sources(tmp_path: Path) -> None:
    reports: list[tuple[float, str | None]] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, message))

    async with serving(tmp_path, Reply("Water. [ID:61]", repeat=True)) as server:
        await server.agent(MODEL, title="Ask")
        async with client_of(server) as client:
            result = await client.call_tool("Ask", {"query": "hi"}, progress_callback=report)
    assert reports[0] == (1, "begin")
    assert result.meta is not None
    assert len(result.meta["ragflow-lg/session_id"]) == 32


async def test_cancelling_a_call_stops_the_model(tmp_path: Path) -> None:
    async with serving(tmp_path, Reply(chunks=["a"] * 1000, pause_s=0.05)) as server:
        await server.agent(MODEL, title="Slow")
        settings = over_http(httpx.URL(server.url).port or 0, headers={"Authorization": f"Bearer {server.key}"})
        async with servers_of(s=settings) as servers:
            call = asyncio.ensure_future(text_of(servers, "Slow", query="hi"))
            await wait_while(lambda: not server.model.requests)
            call.cancel()
            with anyio.fail_after(5):
                await wait_while(lambda: server.running)


async def test_keys_see_only_their_own_agents_and_sessions(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        await server.agent(ECHO, title="Echo")
        other = await server.new_key("other")
        async with client_of(server, other) as client:
            assert (await client.list_tools()).tools == []
            assert is_error(await client.call_tool("Echo", {"query": "x"}))
        async with httpx.AsyncClient(base_url=server.url) as http:
            accept = {"Accept": "application/json, text/event-stream"}
            hello = {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "initialize",
                "params": {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {},
                    "clientInfo": {"name": "t", "version": "1"},
                },
            }
            for key in ("Bearer", "Bearer ragflow-wrong"):
                answer = await http.post("/mcp", json=hello, headers={**accept, "Authorization": key})
                assert answer.status_code == 401
            opened = await http.post("/mcp", json=hello, headers={**accept, "Authorization": f"Bearer {server.key}"})
            session = opened.headers["mcp-session-id"]
            listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
            headers = {**accept, "Authorization": f"Bearer {other}", "mcp-session-id": session}
            assert (await http.post("/mcp", json=listing, headers=headers)).status_code == 404


async def test_without_the_setting_there_is_no_endpoint(server: AppServer) -> None:
    assert (await server.client.post(f"{server.url}/mcp", content=json.dumps({}))).status_code == 404


async def test_arguments_that_are_nested_too_deeply_are_refused(tmp_path: Path) -> None:
    nested: Any = []
    for _ in range(200):
        nested = [nested]
    async with serving(tmp_path) as server:
        await server.agent(ECHO, title="Echo")
        async with client_of(server) as client:
            with pytest.raises(McpError, match=r"nested more than|recursion limit"):
                await client.call_tool("Echo", {"query": nested})
