from __future__ import annotations

import asyncio

import httpx
import pytest

from ragflow_lg.errors import SettingsError
from server.mock_llm.serving import listening, serving
from tests.fakes.mock_llm import MockLLM, reply


async def test_it_ends_at_once_whatever_is_on_its_way() -> None:
    async with httpx.AsyncClient() as http:
        async with MockLLM([reply("a", delay_s=60)]) as server:
            ask = http.post(f"{server.base_url}/chat/completions", json={"model": "m", "messages": []})
            asking = asyncio.create_task(ask)
            await asyncio.wait_for(server.was_asked.wait(), 5)
            began = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - began < 2
        with pytest.raises(httpx.HTTPError):
            await asking


async def test_a_port_that_is_taken_is_told() -> None:
    with listening("127.0.0.1", 0) as opened:
        port = opened.getsockname()[1]
        with pytest.raises(SettingsError, match=f"127.0.0.1 port {port}: address already in use.*--port 0"):
            listening("127.0.0.1", port)
    with pytest.raises(SettingsError, match=r"Nothing can listen at no\.such\.host\.invalid"):
        listening("no.such.host.invalid", 0)


async def test_ipv6_addresses_are_written_as_urls_have_them() -> None:
    async def app(*_: object) -> None:
        raise AssertionError

    try:
        opened = listening("::1", 0)
    except SettingsError:
        pytest.skip("this machine has no IPv6")
    async with serving(app, opened) as url:
        assert url.startswith("http://[::1]:")
