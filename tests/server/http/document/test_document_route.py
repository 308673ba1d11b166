import asyncio
import threading
from typing import Any

import httpx
from starlette.applications import Starlette

from ragflow_lg.server.http.app import make_document_route


async def test_the_document_is_built_once_and_beside_the_event_loop() -> None:
    threads: list[threading.Thread] = []

    def build() -> dict[str, Any]:
        threads.append(threading.current_thread())
        return {"openapi": "3.1.0"}

    app = Starlette(routes=[make_document_route(build)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as client:
        answers = await asyncio.gather(*(client.get("/openapi.json") for _ in range(16)))
    assert {answer.content for answer in answers} == {b'{"openapi":"3.1.0"}'}
    assert answers[0].headers["content-type"] == "application/json"
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()
