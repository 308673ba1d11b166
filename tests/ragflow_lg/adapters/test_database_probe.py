import asyncio

import pytest

from ragflow_lg.adapters import database_probe
from ragflow_lg.adapters.database_probe import DatabaseAddress, probe_database
from ragflow_lg.adapters.http.address_guard import AddressGuard
from ragflow_lg.base.errors import ServiceError


@pytest.mark.parametrize("kind", ["mysql", "postgres"])
async def test_a_server_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(database_probe, "CONNECT_S", 0.2)
    silent = await asyncio.start_server(lambda reader, writer: asyncio.sleep(5), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    address = DatabaseAddress(kind, "localhost", port, "shop", "reader", "secret")
    guard = AddressGuard(["127.0.0.1", "::1"])
    with pytest.raises(ServiceError, match=r"did not respond within 0\.2 s|refused the connection"):
        await probe_database(address, guard)
    silent.close()
