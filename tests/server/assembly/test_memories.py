import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.knowledge.embedders import MAX_QUESTION_CHARS
from ragflow_lg.adapters.memories.memory_layout import memory_namespace
from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints import open_items
from ragflow_lg.server.assembly.open_services import open_services
from ragflow_lg.server.assembly.tenant_resources import TenantResources
from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.knowledge_sections import MemorySection
from ragflow_lg.services.memories import Exchange, MemorySearch, NoMemories
from tests.fakes.http_server import HttpServer, Route

TENANTS: dict[str, Any] = {"shop": {"keys": ["memories.no*"]}, "bank": {}}


@asynccontextmanager
async def opened(folder: Path, only_tenant: str = "", **sections: Any) -> AsyncGenerator[TenantResources]:
    memory = MemorySection(types=("raw",))
    settings = Settings(
        checkpoints=f"sqlite:///{folder}/store.db",
        default_model="demo",
        memories={"notes": memory, "other": memory},
        **sections,
    )
    async with open_services(settings) as services:
        resources = TenantResources(settings, services, only_tenant=only_tenant)
        yield resources
        await resources.aclose()


async def search(resources: TenantResources, tenant: str) -> Any:
    question = MemorySearch("tea", ("notes",), "anna", similarity_threshold=0.0)
    return await resources.services(tenant).memories.search(question)


async def test_without_a_section_there_are_no_memories() -> None:
    async with open_services(Settings(checkpoints="memory://")) as services:
        assert isinstance(services.memories, NoMemories)


async def test_memories_lie_in_the_session_store(tmp_path: Path) -> None:
    async with opened(tmp_path) as resources:
        memories = resources.services("default").memories
        await memories.remember(["notes"], Exchange("k", "anna", "tea", ""))
    async with open_items(f"sqlite:///{tmp_path}/store.db") as items:
        item = await items.aget(memory_namespace("notes", "default", "anna"), "k")
    assert item is not None
    assert (item.value["content"], item.value["extraction"]) == ("User: tea\nAssistant: ", "done")


async def test_each_tenant_has_its_own_part_of_the_memories_that_it_may_use(tmp_path: Path) -> None:
    async with opened(tmp_path, tenants=TENANTS) as resources:
        for tenant in ("default", "shop"):
            exchange = Exchange("k", "anna", f"tea of {tenant}", "")
            missing = await resources.services(tenant).memories.remember(["notes", "other"], exchange)
            assert missing == ([] if tenant == "default" else ["other"])
    async with opened(tmp_path, tenants=TENANTS) as resources:
        for tenant in ("default", "shop"):
            (entry,) = (await search(resources, tenant)).entries
            assert entry.content == f"User: tea of {tenant}\nAssistant: "
        assert not (await search(resources, "bank")).is_known
        assert not (await search(resources, "stranger")).is_known


async def test_an_only_tenant_keeps_its_memories_when_others_arrive(tmp_path: Path) -> None:
    async with opened(tmp_path, "acme") as resources:
        await resources.services("acme").memories.remember(["notes"], Exchange("k", "anna", "tea", ""))
    async with opened(tmp_path, tenants={"acme": {"keys": ["memories.*"]}}) as resources:
        assert len((await search(resources, "acme")).entries) == 1
        assert (await search(resources, "default")).entries == ()


async def test_an_embedding_model_gets_no_more_than_it_accepts(tmp_path: Path) -> None:
    vectors = json.dumps({"data": [{"index": 0, "embedding": [1.0, 0.0]}]})
    async with HttpServer([Route("/v1/embeddings", body=vectors)]).running() as server:
        section: Any = {"m@P": {"base_url": f"http://127.0.0.1:{server.port}/v1", "api_key": "k"}}
        async with opened(tmp_path, embeddings=section) as resources:
            long = Exchange("k", "anna", "tea " * 5_000, "hat " * 5_000)
            await resources.services("default").memories.remember(["notes"], long)
        ((text,),) = [json.loads(request.body)["input"] for request in server.received]
    assert 5_000 < len(text) <= MAX_QUESTION_CHARS


async def test_a_store_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    settings = Settings(checkpoints=f"sqlite:///{tmp_path}", memories={"notes": MemorySection()})
    with pytest.raises(CheckpointError, match="cannot be opened"):
        async with open_services(settings):
            pass
