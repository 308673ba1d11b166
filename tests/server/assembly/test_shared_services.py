import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from ragflow_lg.server.assembly.shared_services import SharedServices
from ragflow_lg.services.services import Services
from tests.fakes.services import fake_services


@pytest.mark.parametrize(
    ("stays_open", "expected"), [(False, ["+a", "+b", "-b", "-a", "+a", "-a"]), (True, ["+a", "+b"])]
)
async def test_runs_share_services_by_model(stays_open: bool, expected: list[str]) -> None:
    log: list[str] = []

    @asynccontextmanager
    async def open_services(model: str) -> AsyncGenerator[Services]:
        log.append(f"+{model}")
        yield fake_services()
        log.append(f"-{model}")

    shared = SharedServices(open_services, model="a", stays_open=stays_open)
    async with shared(model="") as first:
        async with shared(model="a") as second:
            assert first is second
        async with shared(model="b") as third:
            assert third is not first
    async with shared(model=""):
        pass
    assert log == expected


def test_every_event_loop_has_its_own_services() -> None:
    models: list[str] = []

    @asynccontextmanager
    async def open_services(model: str) -> AsyncGenerator[Services]:
        models.append(model)
        yield fake_services()

    shared = SharedServices(open_services, stays_open=True)

    async def use() -> None:
        async with shared(model=""):
            pass

    asyncio.run(use())
    asyncio.run(use())
    assert models == ["", ""]
