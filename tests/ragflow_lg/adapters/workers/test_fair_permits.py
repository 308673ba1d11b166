import asyncio

import pytest

from ragflow_lg.adapters.chat.model_resolution import ChatModelSettings, ConfiguredModels, ProviderSettings
from ragflow_lg.adapters.workers.fair_slots import FairPermits
from ragflow_lg.services.chat import ChatModel, ChatRequest
from tests.fakes.mock_llm import MockLLM, reply

ASK = ChatRequest("", ({"role": "user", "content": "hello"},))


@pytest.mark.parametrize(
    ("size", "tenants", "most"), [(64, ("",), 64), (64, ("a", "b"), 48), (2, ("a", "b"), 1), (1, ("a", "b"), 1)]
)
async def test_no_tenant_holds_all_permits_if_several_use_the_provider(
    size: int, tenants: tuple[str, ...], most: int
) -> None:
    permits, held = FairPermits(size), 0
    for tenant in tenants:
        permits.add(tenant)

    async def hold() -> None:
        nonlocal held
        async with permits.hold(tenants[0]):
            held += 1
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(hold()) for _ in range(100)]
    await asyncio.sleep(0.01)
    assert held == most
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_tenant_does_not_wait_for_the_slow_calls_of_another_one() -> None:
    async with MockLLM([reply("slow", delay_s=1.0)]) as server:
        provider = ProviderSettings(base_url=server.base_url, api_key="sk-0123456789", concurrency=4)
        settings = ChatModelSettings(default_model="m@Mock", providers={"Mock": provider})
        models = ConfiguredModels(settings)
        tenants = [models.for_tenant("a").model(""), models.for_tenant("b").model("")]
        try:
            order = await _finish(server, *tenants)
        finally:
            await models.aclose()
    assert order.index("b") < 4  # with the first four calls, although twelve others were waiting
    assert len(order) == 13


async def _finish(server: MockLLM, attacker: ChatModel, other: ChatModel) -> list[str]:
    order: list[str] = []

    async def ask(model: ChatModel, name: str) -> None:
        await model.complete(ASK)
        order.append(name)

    async with asyncio.TaskGroup() as group:
        for _ in range(12):
            group.create_task(ask(attacker, "a"))
        while len(server.requests) < 3:
            await asyncio.sleep(0.01)
        group.create_task(ask(other, "b"))
    return order
