import asyncio

import pytest

from ragflow_lg.adapters import database_probe
from ragflow_lg.adapters.database_probe import DatabaseAddress, probe_database
from ragflow_lg.adapters.http.address_guard import AddressGuard
from ragflow_lg.base.errors import ServiceError


async def probe_server_that_sends(greeting: bytes, kind: str) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        await (asyncio.sleep(5) if not greeting else writer.drain())
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        address = DatabaseAddress(kind, "localhost", port, "shop", "reader", "secret")
        await probe_database(address, AddressGuard(["127.0.0.1", "::1"]))


@pytest.mark.parametrize("kind", ["mysql", "postgres"])
async def test_a_server_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(database_probe, "CONNECT_S", 0.2)
    with pytest.raises(ServiceError, match=r"did not respond within 0\.2 s|refused the connection"):
        await probe_server_that_sends(b"", kind)


@pytest.mark.parametrize("kind", ["mysql", "postgres"])
@pytest.mark.parametrize(
    "greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\1\0\0\0\n", b"\x05\0\0\0\nabc\0", b"\2\0\0\0\xff\xff"]
)
async def test_another_server_at_the_address_is_reported(greeting: bytes, kind: str) -> None:
    with pytest.raises(ServiceError, match="refused the connection"):
        await probe_server_that_sends(greeting, kind)
