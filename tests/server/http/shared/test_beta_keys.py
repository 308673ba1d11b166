from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.http.shared.beta_keys import authenticate_any, authenticate_beta
from ragflow_lg.server.observability.operations import Operations
from tests.server.http.app_server import start_app


def request(app: Any, header: str) -> Request:
    headers = [(b"authorization", header.encode("latin-1"))] if header else []
    return Request(
        cast("Any", {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": headers, "app": app})
    )


async def test_each_kind_of_route_takes_its_kinds_of_keys(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        operations = Operations(server.app_state.settings.server, ())
        app = SimpleNamespace(state=SimpleNamespace(app_state=server.app_state, operations=operations))
        beta = await KeyRepository(server.app_state.database).create("shop", 1, kind="beta")
        for header in (beta, f"bearer {beta}", f"Bearer  {beta} "):
            assert (await authenticate_beta(request(app, header))).tenant == "shop"
        assert (await authenticate_any(request(app, beta))).tenant == "shop"
        assert (await authenticate_any(request(app, server.key))).tenant == "tenant"
        for header, told in ((server.key, "Authentication error"), ("", "Authorization is not valid!")):
            with pytest.raises(RequestError, match=told) as refused:
                await authenticate_beta(request(app, header))
            assert refused.value.number == 102
        await KeyRepository(server.app_state.database).revoke(beta, 2)
        for header in ("", "Bearer", beta, f"Basic {beta}"):
            with pytest.raises(RequestError) as refused:
                await authenticate_any(request(app, header))
            assert refused.value.status == 401
