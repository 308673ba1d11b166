from pathlib import Path
from typing import Any

from tests.server.http.app_server import start_app

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
        models = (await server.client.get("/models")).json()["data"]
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
        embeddings = (await server.client.get("/models?type=embedding")).json()["data"]
        assert [model["name"] for model in embeddings] == ["bge-m3"]
        defaults = (await server.client.get("/models/default")).json()["data"]["models"]
        assert {each["model_type"]: each["model_id"] for each in defaults} == {
            "chat": "gpt-4.1@OpenAI",
            "embedding": "bge-m3@SILICONFLOW",
        }
        assert (await server.client.get("/models?owner_tenant_id=tenant&type=rerank")).json()["data"][0]["rank"] == 500
        other = (await server.client.get("/models?owner_tenant_id=other")).json()
        assert other == {"code": 102, "message": "Permission denied"}


async def test_providers_are_shown_without_keys_and_addresses(tmp_path: Path) -> None:
    async with start_app(tmp_path, sections=SECTIONS) as server:
        providers = (await server.client.get("/providers")).json()["data"]
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
            assert (await server.client.get(f"/providers/{path}")).json()["code"] == 102
