from typing import Any

import pytest

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.services.http import HttpRequest
from tests.fakes.http_server import HttpServer

OPENED: list[GuardedHttpClient] = []


def make_client(*args: Any, **options: Any) -> GuardedHttpClient:
    """Create a client that is closed after the test."""
    OPENED.append(GuardedHttpClient(*args, **options))
    return OPENED[-1]


def client_of(server: HttpServer, **settings: Any) -> GuardedHttpClient:
    return make_client(HttpSettings(allow=("*.test",), **settings), resolve=server.resolve)


def get(path: str = "/", **more: Any) -> HttpRequest:
    return HttpRequest("GET", f"http://stub.test{path}", **more)


async def send_error(client: GuardedHttpClient, request: HttpRequest) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        await client.send(request)
    return caught.value
