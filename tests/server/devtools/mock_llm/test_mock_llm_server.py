from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.fakes.mock_llm import MockLLM, reply


async def test_the_server_ends_at_once_during_a_response() -> None:
    async with httpx.AsyncClient() as http:
        async with MockLLM([reply("a", delay_s=60)]) as server:
            ask = http.post(f"{server.base_url}/chat/completions", json={"model": "m", "messages": []})
            asking = asyncio.create_task(ask)
            await asyncio.wait_for(server.received_request.wait(), 5)
            start_time = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - start_time < 2
        with pytest.raises(httpx.HTTPError):
            await asking
