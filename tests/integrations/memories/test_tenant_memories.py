from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ragflow_lg.integrations.memories.memory_settings import MemorySection
from ragflow_lg.server.assembly.open_services import open_services
from ragflow_lg.server.assembly.tenant_resources import TenantResources
from ragflow_lg.server.settings import Settings
from ragflow_lg.services.memories import Exchange, Memories, MemorySearch

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
    return await resources.services(tenant).of(Memories).search(question)


async def test_each_tenant_has_its_own_part_of_the_memories_that_it_may_use(tmp_path: Path) -> None:
    async with opened(tmp_path, tenants=TENANTS) as resources:
        for tenant in ("default", "shop"):
            exchange = Exchange("k", "anna", f"tea of {tenant}", "")
            missing = await resources.services(tenant).of(Memories).remember(["notes", "other"], exchange)
            assert missing == ([] if tenant == "default" else ["other"])
    async with opened(tmp_path, tenants=TENANTS) as resources:
        for tenant in ("default", "shop"):
            (entry,) = (await search(resources, tenant)).entries
            assert entry.content == f"User: tea of {tenant}\nAssistant: "
        assert not (await search(resources, "bank")).is_known
        assert not (await search(resources, "stranger")).is_known


async def test_an_only_tenant_keeps_its_memories_when_others_arrive(tmp_path: Path) -> None:
    async with opened(tmp_path, "acme") as resources:
        await resources.services("acme").of(Memories).remember(["notes"], Exchange("k", "anna", "tea", ""))
    async with opened(tmp_path, tenants={"acme": {"keys": ["memories.*"]}}) as resources:
        assert len((await search(resources, "acme")).entries) == 1
        assert (await search(resources, "default")).entries == ()
