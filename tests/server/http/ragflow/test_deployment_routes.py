from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragflow_lg.server.http.ragflow.deployment_routes import EMPTY_LISTS
from ragflow_lg.services.tool_policies import ServerTool
from tests.fakes.mcp_servers import FakeServer
from tests.server.http.app_server import AppServer, start_app

SECTIONS: dict[str, Any] = {
    "default_model": "gpt-4.1@OpenAI",
    "providers": {
        "OpenAI": {"api_key": "sk-hidden", "base_url": "https://models.internal/v1", "models": ["gpt-4.1", "o3"]}
    },
    "models": {"o3": {"context_tokens": 200_000, "has_vision": False, "has_tools": False}},
    "embeddings": {"bge-m3@SILICONFLOW": {"base_url": "https://api.siliconflow.example/v1"}},
    "rerankers": {"bge-reranker@SILICONFLOW": {"base_url": "https://api.siliconflow.example/v1"}},
}


async def test_the_models_of_the_settings_are_offered(tmp_path: Path) -> None:
    async with start_app(tmp_path, sections=SECTIONS) as server:
        models = (await server.get("/models"))["data"]
        assert {model["model_id"]: model["model_type"] for model in models} == {
            "gpt-4.1@OpenAI": ["chat", "vision"],
            "o3@OpenAI": ["chat"],
            "demo": ["chat"],
            "bge-m3@SILICONFLOW": ["embedding"],
            "bge-reranker@SILICONFLOW": ["rerank"],
        }
        assert (models[0]["name"], models[0]["instance_name"], models[0]["provider_name"]) == (
            "gpt-4.1",
            "default",
            "OpenAI",
        )
        embeddings = (await server.get("/models?type=embedding"))["data"]
        assert [model["name"] for model in embeddings] == ["bge-m3"]
        defaults = (await server.get("/models/default"))["data"]["models"]
        assert {each["model_type"]: each["model_id"] for each in defaults} == {
            "chat": "gpt-4.1@OpenAI",
            "embedding": "bge-m3@SILICONFLOW",
        }
        assert (await server.get("/models?owner_tenant_id=tenant&type=rerank"))["data"][0]["rank"] == 500
        assert await server.get("/models?owner_tenant_id=other") == {"code": 102, "message": "Permission denied"}


async def test_providers_are_shown_without_keys_and_addresses(tmp_path: Path) -> None:
    async with start_app(tmp_path, sections=SECTIONS) as server:
        providers = (await server.get("/providers"))["data"]
        assert [provider["name"] for provider in providers] == ["OpenAI", "demo", "SILICONFLOW"]
        texts = [(await server.client.get("/providers")).text]
        for path in ("models", "instances", "instances/default", "instances/default/models"):
            answer = await server.client.get(f"/providers/OpenAI/{path}")
            assert answer.json()["code"] == 0, answer.text
            texts.append(answer.text)
        assert not any("hidden" in text or "internal" in text for text in texts)
        o3 = next(model for model in answer.json()["data"] if model["name"] == "o3")
        assert (o3["max_tokens"], o3["is_tools"]) == (200_000, False)
        for path in ("Nobody/models", "OpenAI/instances/other"):
            assert (await server.get(f"/providers/{path}"))["code"] == 102


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
        one: Any = (await server.get("/mcp/servers/tickets?mode=preview"))["data"]
        assert (one, (await server.get("/mcp/servers/nobody"))["code"]) == (tickets, 102)
        exported = (await server.get("/mcp/servers/tickets?mode=download"))["data"]["mcpServers"]["tickets"]
        assert (exported["type"], list(exported["tools"]), exported["authorization_token"]) == (
            "streamable-http",
            ["find"],
            "",
        )
        body = {"url": "http://127.0.0.1/", "server_type": "sse"}
        (tested,) = (await server.post("/mcp/servers/tickets/test", body))["data"]
        assert (tested["name"], tested["enabled"]) == ("find", True)
        for id_, problem in (("broken", "not answer in time"), ("nobody", "no section [mcp.'nobody']")):
            refused = await server.post(f"/mcp/servers/{id_}/test", body)
            assert (refused["code"], problem in refused["message"]) == (102, True), refused
        chosen = (await server.get("/mcp/servers?mcp_ids=broken&keywords=BRO"))["data"]
        assert [each["id"] for each in chosen["mcp_servers"]] == ["broken"]
        second = (await server.get("/mcp/servers?page=2&page_size=1"))["data"]
        assert ([each["id"] for each in second["mcp_servers"]], second["total"]) == (["broken"], 2)


async def test_lists_of_what_the_server_does_not_have_are_empty(server: AppServer) -> None:
    for path, data in EMPTY_LISTS.items():
        answer = await server.client.get(f"{path}?type=builtin&page_size=1000")
        assert answer.json() == {"code": 0, "message": "success", "data": data}, path
        assert (await server.client.get(path, headers={"Authorization": ""})).status_code == 401
    key = await server.new_key(kind="beta")
    path, headers = "/thumbnails?doc_ids=1&doc_ids=2", {"Authorization": f"Bearer {key}"}
    assert ((await server.get(path, headers=headers))["data"], (await server.get("/thumbnails"))["code"]) == ({}, 101)
    assert (await server.get(f"/thumbnails?doc_ids={'x,' * 101}"))["code"] == 101
