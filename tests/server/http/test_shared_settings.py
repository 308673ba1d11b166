"""Several tenants on one server: what the settings describe is shared only if they say so."""

from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.services.knowledge import Dataset, DatasetEntry
from tests.fakes.knowledge import FakeKnowledge
from tests.fakes.listed_knowledge import ListedKnowledge
from tests.server.http.app_server import AppServer, canvas, start_app

HANDBOOK, PRICES = DatasetEntry(Dataset("0f3c", "Handbook")), DatasetEntry(Dataset("9a7e", "Prices"))

RETRIEVAL = canvas(
    ("begin", "Begin", {}, ["Retrieval:0"]),
    ("Retrieval:0", "Retrieval", {"dataset_ids": ["Handbook"], "query": "sys.query"}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["{Retrieval:0@formalized_content}"]}, []),
)
NAMED = canvas(
    ("begin", "Begin", {}, ["Canvas:0"]),
    ("Canvas:0", "Canvas", {"canvas": "report"}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["{Canvas:0@content}"]}, []),
)
TICKETS = canvas(
    ("begin", "Begin", {}, ["Agent:0"]),
    (
        "Agent:0",
        "Agent",
        {"llm_id": "m", "sys_prompt": "x", "mcp": [{"mcp_id": "tickets", "tools": {"find": {"name": "find"}}}]},
        ["Message:0"],
    ),
    ("Message:0", "Message", {"content": ["{Agent:0@content}"]}, []),
)
SECTIONS: dict[str, Any] = {
    "default_model": "gpt-4.1@OpenAI",
    "providers": {
        "OpenAI": {"api_key": "sk-hidden"},
        "Local": {"base_url": "http://127.0.0.1:1/v1", "models": ["tiny"]},
    },
    "models": {"o3@OpenAI": {"has_vision": False}},
    "embeddings": {"bge-m3@SILICONFLOW": {"base_url": "https://api.siliconflow.example/v1"}},
    "rerankers": {"bge-reranker@SILICONFLOW": {"base_url": "https://api.siliconflow.example/v1"}},
    "mcp": {"tickets": {"url": "http://10.0.0.7/mcp"}},
    "canvases": {"report": "report.json"},
    "tenants": {"owner": {"models": ["*"], "keys": ["*"]}, "shop": {"keys": ["datasets.Pri*"], "models": ["local"]}},
}


async def start(server: AppServer, tenant: str) -> dict[str, str]:
    return {"Authorization": await server.new_key(tenant)}


async def test_lists_show_a_tenant_only_what_it_may_use(tmp_path: Path) -> None:
    knowledge = ListedKnowledge(HANDBOOK, PRICES)
    async with start_app(tmp_path, knowledge=knowledge, sections=SECTIONS, shares_nothing=True) as server:
        expected: dict[str, tuple[set[str], list[str], list[str]]] = {
            "owner": (
                {"gpt-4.1@OpenAI", "o3@OpenAI", "tiny@Local", "demo", "bge-reranker@SILICONFLOW"},
                ["0f3c", "9a7e"],
                ["tickets"],
            ),
            "shop": ({"tiny@Local", "demo"}, ["9a7e"], []),
            "stranger": ({"demo"}, [], []),
        }
        for tenant, (models, datasets, servers) in expected.items():
            key = await start(server, tenant)
            rows = (await server.get("/models", headers=key))["data"]
            assert {row["model_id"] for row in rows} == models, tenant
            rows = (await server.get("/datasets", headers=key))["data"]
            assert [row["id"] for row in rows] == datasets
            rows = (await server.get("/mcp/servers", headers=key))["data"]["mcp_servers"]
            assert [row["id"] for row in rows] == servers
        key = await start(server, "shop")
        assert (await server.get("/mcp/servers/tickets", headers=key))["code"] == 102
        hidden = await server.client.get("/datasets/metadata/flattened?dataset_ids=0f3c", headers=key)
        assert "No authorization" in hidden.json()["message"]


@pytest.mark.parametrize(
    ("dsl", "message"),
    [
        (RETRIEVAL, "The tenant 'tenant' has no dataset 'Handbook'."),
        (NAMED, "The tenant 'tenant' has no canvas 'report'."),
        (TICKETS, "no MCP server"),
    ],
)
async def test_a_run_that_asks_for_things_of_others_fails(tmp_path: Path, dsl: dict[str, Any], message: str) -> None:
    knowledge = FakeKnowledge([HANDBOOK.dataset, PRICES.dataset])
    async with start_app(tmp_path, knowledge=knowledge, sections=SECTIONS, shares_nothing=True) as server:
        body = {"agent_id": await server.agent(dsl), "query": "Hi", "return_trace": True}
        assert message in (await server.client.post("/agents/chat/completions", json=body)).text.replace("\\", "")
