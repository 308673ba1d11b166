from __future__ import annotations

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
    happened: list[str] = []

    @asynccontextmanager
    async def opening(model: str) -> AsyncGenerator[Services]:
        happened.append(f"+{model}")
        yield fake_services()
        happened.append(f"-{model}")

    shared = SharedServices(opening, model="a", stays_open=stays_open)
    async with shared(model="") as first:
        async with shared(model="a") as second:
            assert first is second
        async with shared(model="b") as third:
            assert third is not first
    async with shared(model=""):
        pass
    assert happened == expected


def test_every_loop_has_its_own() -> None:
    opened: list[str] = []

    @asynccontextmanager
    async def opening(model: str) -> AsyncGenerator[Services]:
        opened.append(model)
        yield fake_services()

    shared = SharedServices(opening, stays_open=True)

    async def use() -> None:
        async with shared(model=""):
            pass

    asyncio.run(use())
    asyncio.run(use())
    assert opened == ["", ""]
