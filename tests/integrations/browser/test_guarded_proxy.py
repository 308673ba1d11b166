import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest

from ragflow_lg.adapters.http.address_guard import AddressGuard
from ragflow_lg.integrations.browser.guarded_proxy import MAX_REFUSALS, GuardedProxy
from tests.fakes.http_server import HttpServer, Route
from tests.harness.rows import each_row

HELLO = b"\x05\x01\x00"


@asynccontextmanager
async def _proxy(guard: AddressGuard, max_bytes: int = 10**6) -> AsyncGenerator[tuple[GuardedProxy, int]]:
    proxy = GuardedProxy(guard, max_bytes)
    try:
        yield proxy, await proxy.start()
    finally:
        await proxy.aclose()


async def _ask(port: int, sent: bytes) -> bytes:
    """Send bytes and return everything that comes back before the proxy closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = b""
    with suppress(ConnectionError):
        writer.write(sent)
        writer.write_eof()
        async with asyncio.timeout(10):
            answer = await reader.read()
    writer.close()
    return answer


def _connect(host: bytes, port: int, command: int = 1) -> bytes:
    return HELLO + bytes([5, command, 0, 3, len(host)]) + host + port.to_bytes(2)


async def _to_loopback(host: str, port: int) -> Sequence[tuple[str, int]]:
    return [("127.0.0.1", port)]


async def test_an_allowed_host_is_connected_at_its_checked_address() -> None:
    server = HttpServer([Route("/", body="hello", headers={"connection": "close"})])
    async with server.running():
        guard = AddressGuard([f"site.example:{server.port}"], resolve=_to_loopback)
        async with _proxy(guard) as (proxy, port):
            request = _connect(b"site.example", server.port) + b"GET / HTTP/1.1\r\nHost: site.example\r\n\r\n"
            answer = await _ask(port, request)
            assert answer[:4] == b"\x05\x00\x05\x00"
            assert answer.endswith(b"hello")
            assert proxy.take_refusals() == []


@pytest.mark.parametrize(("host", "kind"), [(b"\x7f\x00\x00\x01", 1), (b"\x09localhost", 3), (bytes(15) + b"\x01", 4)])
async def test_internal_addresses_are_refused_in_every_form(host: bytes, kind: int) -> None:
    async with _proxy(AddressGuard()) as (proxy, port):
        answer = await _ask(port, HELLO + bytes([5, 1, 0, kind]) + host + b"\x00\x50")
        assert answer[2:4] == b"\x05\x02"
        (reason,) = proxy.take_refusals()
        assert "not on the public internet" in reason


@each_row(
    ("sent", "answer"),
    [
        (b"", b""),
        (b"GET / HTTP/1.1\r\n\r\n", b""),
        (b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00", b"\x05\xff"),
        (b"\x05\x01\x02", b"\x05\xff"),
        (HELLO + b"\x05\x01\x00\x09", b"\x05\x00"),
        (_connect(b"a", 80, command=3), b"\x05\x00\x05\x07"),
        (_connect("ä".encode(), 80), b"\x05\x00"),
        (_connect(b"a", 0), b"\x05\x00\x05\x07"),
        (HELLO + b"\x05\x01\x00\x03\xffshort", b"\x05\x00"),
    ],
)
async def test_anything_else_is_refused(sent: bytes, answer: bytes) -> None:
    async with _proxy(AddressGuard(["127.0.0.1"])) as (_, port):
        assert (await _ask(port, sent))[: max(len(answer), 1)] == answer


async def test_what_chromium_asks_its_makers_leads_nowhere() -> None:
    async with _proxy(AddressGuard(resolve=_to_loopback)) as (proxy, port):
        for host in (b"content-autofill.googleapis.com", b"Update.GoogleAPIs.com."):
            answer = await _ask(port, _connect(host, 443))
            assert answer[2:4] == b"\x05\x02"
        assert proxy.take_refusals() == []  # the model asked for none of it


async def test_traffic_is_limited() -> None:
    server = HttpServer([Route("/", pieces=[b"x" * 100_000] * 100)])
    async with server.running(), _proxy(AddressGuard(["127.0.0.1"]), 500_000) as (proxy, port):
        request = _connect(b"127.0.0.1", server.port) + b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
        assert len(await _ask(port, request)) <= 500_000
        assert proxy.is_exhausted
        assert await _ask(port, request) == b"", "no further connection"


async def test_refusals_are_limited() -> None:
    async with _proxy(AddressGuard()) as (proxy, port):
        for number in range(1, MAX_REFUSALS + 5):
            await _ask(port, _connect(b"127.0.0.1", number))
        assert len(proxy.take_refusals()) == MAX_REFUSALS
        assert proxy.take_refusals() == []
