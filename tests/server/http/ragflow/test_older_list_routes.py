from pathlib import Path
from typing import Any

from ragflow_lg.services.knowledge import Dataset, DatasetEntry
from tests.fakes.listed_knowledge import ListedKnowledge
from tests.server.http.app_server import AppServer, start_app
from tests.server.http.ragflow.test_model_routes import SECTIONS


async def get(server: AppServer, path: str) -> Any:
    body = (await server.client.get(f"{server.url}/v1/{path}")).json()
    assert body["code"] == 0, body
    return body["data"]


async def test_forms_of_0_25_find_the_models_of_the_settings(tmp_path: Path) -> None:
    async with start_app(tmp_path, sections=SECTIONS) as server:
        listed = await get(server, "llm/list")
        ids = {f"{model['llm_name']}@{model['fid']}": model for models in listed.values() for model in models}
        assert {id_: model["model_type"] for id_, model in ids.items()} == {
            "gpt-4.1@OpenAI": "chat",
            "o3@OpenAI": "chat",
            "demo@demo": "chat",
            "bge-m3@SILICONFLOW": "embedding",
            "bge-reranker@SILICONFLOW": "rerank",
        }
        assert [("IMAGE2TEXT" in ids[f"{name}@OpenAI"]["tags"]) for name in ("gpt-4.1", "o3")] == [True, False]
        assert [ids[f"{name}@OpenAI"]["is_tools"] for name in ("gpt-4.1", "o3")] == [True, False]
        assert list(await get(server, "llm/list?model_type=rerank")) == ["SILICONFLOW"]


async def test_the_model_page_of_0_25_shows_no_keys_and_addresses(tmp_path: Path) -> None:
    async with start_app(tmp_path, sections=SECTIONS) as server:
        own = await get(server, "llm/my_llms")
        assert [model["name"] for model in own["OpenAI"]["llm"]] == ["gpt-4.1", "o3"]
        factories = await get(server, "llm/factories")
        assert {each["name"]: each["model_types"] for each in factories} == {
            "OpenAI": ["chat", "image2text"],
            "demo": ["chat"],
            "SILICONFLOW": ["embedding", "rerank"],
        }
        assert "sk-hidden" not in str([own, factories])
        assert "internal" not in str([own, factories])


async def test_an_instance_of_a_provider_is_part_of_the_name(tmp_path: Path) -> None:
    async with start_app(tmp_path, sections={"models": {"big@east@DeepSeek": {}, "free": {}}}) as server:
        listed = await get(server, "llm/list")
        assert [model["llm_name"] for model in listed["DeepSeek"]] == ["big@east"]
        assert "free" not in str(listed)  # it has no provider, so `llm_name@fid` would not name it


async def test_mcp_servers_are_listed_under_their_older_paths(tmp_path: Path) -> None:
    sections = {"mcp": {"a": {"url": "https://a.example/mcp"}, "b": {"url": "https://b.example/mcp"}}}
    async with start_app(tmp_path, sections=sections) as server:
        path = f"{server.url}/v1/mcp_server"
        cases: tuple[tuple[str, list[str], list[str]], ...] = (
            ("", [], ["a", "b"]),
            ("", ["b"], ["b"]),
            ("?page=2&page_size=1", [], ["b"]),
            ("?keywords=A", [], ["a"]),
        )
        for query, wanted, ids in cases:
            listed = (await server.client.post(f"{path}/list{query}", json={"mcp_ids": wanted})).json()["data"]
            assert [each["id"] for each in listed["mcp_servers"]] == ids
        assert (await get(server, "mcp_server/detail?mcp_id=a"))["url"] == "https://a.example"
        assert (await server.client.get(f"{path}/detail")).json()["code"] == 102


async def test_other_lists_and_uploads_have_their_older_paths(tmp_path: Path) -> None:
    handbook = ListedKnowledge(DatasetEntry(Dataset("0f3c", "Handbook"), 2, 31))
    async with start_app(tmp_path, knowledge=handbook) as server:
        assert await get(server, "kb/get_meta?kb_ids=0f3c") == {"year": {"2026": ["0f3c-1"]}}
        assert await get(server, "kb/get_meta") == {}
        assert await get(server, "plugin/llm_tools") == []
        assert await get(server, "document/thumbnails?doc_ids=1") == {}
        sent = {"file": ("a.txt", b"text", "text/plain")}
        stored = (await server.client.post(f"{server.url}/v1/document/upload_info", files=sent)).json()
        assert stored["data"]["name"] == "a.txt"
