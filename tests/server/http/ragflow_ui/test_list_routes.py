from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import RagflowLgError, ServiceError, SettingsError
from ragflow_lg.services.knowledge import Dataset, DatasetEntry
from ragflow_lg.services.tool_policies import ServerTool
from tests.fakes.mcp_servers import FakeServer
from tests.server.http.ragflow_ui.ui_server import start_ui

HANDBOOK = DatasetEntry(Dataset("0f3c", "Handbook", "bge-m3@SILICONFLOW"), 2, 31)
PRICES = DatasetEntry(Dataset("9a7e", "Prices"), 1, 4)


class ListedKnowledge:
    """A dataset store that only lists."""

    def __init__(self, *entries: DatasetEntry, error: RagflowLgError | None = None) -> None:
        self.entries = entries
        self.error = error

    async def list_datasets(self) -> Sequence[DatasetEntry]:
        if self.error is not None:
            raise self.error
        return self.entries

    async def metadata(self, datasets: Sequence[Dataset]) -> Mapping[str, Mapping[str, Sequence[str]]]:
        return {"year": {"2026": [f"{dataset.id}-1" for dataset in datasets]}}


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


async def test_datasets_are_listed_with_their_sizes(tmp_path: Path) -> None:
    async with start_ui(tmp_path, knowledge=ListedKnowledge(HANDBOOK, PRICES)) as server:
        body = (await server.client.get("/datasets")).json()
        assert body["total_datasets"] == 2
        row = body["data"][0]
        assert (row["id"], row["name"], row["chunk_count"], row["document_count"]) == ("0f3c", "Handbook", 31, 2)
        for query, ids in (
            ("ids=9a7e", ["9a7e"]),
            ("ext[keywords]=hand", ["0f3c"]),
            ("page=2&page_size=1", ["9a7e"]),
            ("name=nothing", []),
        ):
            rows = (await server.client.get(f"/datasets?{query}")).json()["data"]
            assert [row["id"] for row in rows] == ids, query
        filters = (await server.client.get("/datasets?type=filter")).json()["data"]
        assert filters["filter"]["owner"][0]["count"] == 2
        metadata = (await server.client.get("/datasets/metadata/flattened?dataset_ids=0f3c")).json()["data"]
        assert metadata == {"year": {"2026": ["0f3c-1"]}}
        assert (await server.client.get("/datasets/metadata/flattened")).json()["data"] == {}


@pytest.mark.parametrize("error", [ServiceError("Elasticsearch is down."), SettingsError("The URL is wrong.")])
async def test_a_failing_store_is_reported(tmp_path: Path, error: RagflowLgError) -> None:
    async with start_ui(tmp_path, knowledge=ListedKnowledge(error=error)) as server:
        body = (await server.client.get("/datasets")).json()
        assert (body["code"], body["message"]) == (102, f"The datasets cannot be listed: {error}")


async def test_mcp_servers_are_listed_with_their_tools_and_without_secrets(tmp_path: Path) -> None:
    tool = ServerTool("find", "Find a ticket.", {"type": "object", "properties": {"id": {"type": "string"}}})
    servers = {"tickets": ListedServer(tool), "broken": ListedServer(error=TimeoutError(5))}
    sections = {"mcp": {"tickets": {"url": "https://tickets.example/mcp/s3cret"}, "broken": {"command": "no-such"}}}
    async with start_ui(tmp_path, servers=servers, sections=sections) as server:
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


EMPTY: dict[str, Any] = {
    "plugin/tools": [],
    "memories": {"memory_list": [], "total_count": 0},
    "chats": {"chats": [], "total": 0},
    "searches": {"search_apps": [], "total": 0},
    "thumbnails?doc_ids=1&doc_ids=2": {},
}


async def test_other_lists_are_empty(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server:
        for path, data in EMPTY.items():
            assert (await server.client.get(f"/{path}")).json() == {"code": 0, "message": "", "data": data}, path
        assert (await server.client.get("/thumbnails")).json()["code"] == 101
