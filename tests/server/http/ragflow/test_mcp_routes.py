from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragflow_lg.services.tool_policies import ServerTool
from tests.fakes.mcp_servers import FakeServer
from tests.server.http.app_server import start_app


class ListedServer(FakeServer):
    """An MCP server that lists its tools, or fails to."""

    def __init__(self, *tools: ServerTool, error: Exception | None = None) -> None:
        super().__init__()
        self.tools = tools
        self.error = error

    async def list_tools(self) -> Sequence[ServerTool]:
        if self.error is not None:
            raise self.error
        return self.tools


async def test_mcp_servers_are_listed_with_their_tools_and_without_secrets(tmp_path: Path) -> None:
    tool = ServerTool("find", "Find a ticket.", {"type": "object", "properties": {"id": {"type": "string"}}})
    servers = {"tickets": ListedServer(tool), "broken": ListedServer(error=TimeoutError(5))}
    sections = {"mcp": {"tickets": {"url": "https://tickets.example/mcp/s3cret"}, "broken": {"command": "no-such"}}}
    async with start_app(tmp_path, servers=servers, sections=sections) as server:
        answer = await server.client.get("/mcp/servers")
        tickets, broken = answer.json()["data"]["mcp_servers"]
        assert tickets["variables"]["tools"]["find"]["inputSchema"]["properties"] == {"id": {"type": "string"}}
        assert (tickets["url"], tickets["server_type"]) == ("https://tickets.example", "streamable-http")
        assert (broken["variables"]["tools"], broken["server_type"]) == ({}, "stdio")
        assert "s3cret" not in answer.text
        one: Any = (await server.client.get("/mcp/servers/tickets?mode=preview")).json()["data"]
        assert one == tickets
        assert (await server.client.get("/mcp/servers/nobody")).json()["code"] == 102
        chosen = (await server.client.get("/mcp/servers?mcp_ids=broken&keywords=BRO")).json()["data"]
        assert [each["id"] for each in chosen["mcp_servers"]] == ["broken"]
        second = (await server.client.get("/mcp/servers?page=2&page_size=1")).json()["data"]
        assert ([each["id"] for each in second["mcp_servers"]], second["total"]) == (["broken"], 2)
