"""``/openapi.json``: built by the first request in a thread, and kept as bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ragflow_lg.server.http.shared.responses import JSON, encode_json


def make_document_route(build: Callable[[], dict[str, Any]]) -> Route:
    """Return the route of the document that `build` returns.

    Building takes most of a second of processor time, and encoding 50 ms. Anybody may ask for the document, so both
    are done once, and not in the event loop.
    """
    encoding: list[asyncio.Task[bytes]] = []

    async def respond(_: Request) -> Response:
        if not encoding:
            encoding.append(asyncio.create_task(asyncio.to_thread(lambda: encode_json(build()))))
        return Response(await asyncio.shield(encoding[0]), media_type=JSON)

    return Route("/openapi.json", respond, include_in_schema=False)
