import asyncio
import gc
import gzip
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

import pytest

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.services.http import HttpRequest, use_traceparent
from tests.fakes.http_server import HttpServer, Route
from tests.harness.rows import each_row
from tests.ragflow_lg.adapters.http.clients import client_of, get, make_client, send_error


@each_row("status", [200, 204, 301, 302, 404, 408, 429, 500, 503])
async def test_a_response_is_returned_whatever_its_status(status: int) -> None:
    route = Route("/", status=status, headers={"Location": "http://169.254.169.254/"})
    async with HttpServer([route]).running() as server:
        answer = await client_of(server).send(get())
    assert answer.status == status
    assert len(server.received) == 1


async def test_a_response_can_be_bytes() -> None:
    async with HttpServer([Route("/", body=b"\x89PNG\xff")]).running() as server:
        answer = await client_of(server).send(get(is_binary=True))
        text = await client_of(server).send(get())
    assert (answer.content, answer.text) == (b"\x89PNG\xff", "")
    assert (text.content, text.text[:4]) == (b"", "\ufffdPNG")


async def test_requests_have_the_current_traceparent() -> None:
    async with HttpServer([Route("/a")]).running() as server:
        client = client_of(server)
        with use_traceparent("00-aa-bb-01"):
            await client.send(get("/a"))
            await client.send(get("/a", headers={"Traceparent": "own"}))
        await client.send(get("/a"))
    sent = [[value for name, value in each.headers if name.lower() == "traceparent"] for each in server.received]
    assert sent == [["00-aa-bb-01"], ["own"], []]


async def test_requests_are_encoded() -> None:
    async with HttpServer([Route("/a b")]).running() as server:
        client = client_of(server)
        await client.send(get("/a b?x=1#part", query={"q": "ä &", "e": ""}, headers={"X-Ü".replace("Ü", "U"): " ü "}))
        await client.send(HttpRequest("POST", "http://stub.test:8080/p", json={"a": ["ü", None]}))
        await client.send(HttpRequest("PUT", "http://stub.test/f", form={"a": "x y", "b": "\ud800"}))
        headers = {"content-type": "application/x+json"}
        await client.send(HttpRequest("PATCH", "http://stub.test/p", json={}, headers=headers))
        await client.send(HttpRequest("HEAD", "http://stub.test/a%20b"))
    first, post, put, patch, head = server.received
    assert (first.method, first.path, first.body) == ("GET", "/a%20b?x=1&q=%C3%A4+%26&e=", b"")
    sent = [("Host", "stub.test"), ("X-U", "ü"), ("User-Agent", "ragflow-lg"), ("Accept", "*/*")]
    assert first.headers == [*sent, ("Accept-Encoding", "gzip")]
    assert [post.header(name) for name in ("Host", "Content-Type")] == ["stub.test:8080", "application/json"]
    assert post.body == b'{"a": ["\\u00fc", null]}'
    assert (put.header("Content-Type"), put.body) == ("application/x-www-form-urlencoded", b"a=x+y&b=%3F")
    assert (patch.header("Content-Type"), patch.body) == ("application/x+json", b"{}")
    assert head.method == "HEAD"


async def test_framing_headers_of_the_request_are_ignored() -> None:
    framing = {"Host": "evil.test", "Content-Length": "5", "Transfer-Encoding": "chunked"}
    async with HttpServer([Route("/")]).running() as server:
        await client_of(server).send(get(headers={**framing, "Accept-Encoding": "br", "ACCEPT": "1"}))
    (request,) = server.received
    names = ("Host", "Accept-Encoding", "Accept", "Transfer-Encoding")
    assert [request.header(name) for name in names] == ["stub.test", "gzip", "1", None]


async def test_credentials_in_a_url_become_a_header_and_are_removed_from_the_url() -> None:
    async with HttpServer([Route("/")]).running() as server:
        client = client_of(server)
        answer = await client.send(HttpRequest("GET", "http://me:p%40ss@stub.test/"))
        await client.send(HttpRequest("GET", "http://me:x@stub.test/", headers={"authorization": "Bearer k"}))
    assert server.received[0].header("Authorization") == "Basic bWU6cEBzcw=="
    assert server.received[1].header("Authorization") == "Bearer k"
    assert answer.url == "http://stub.test/"


@each_row(
    "url",
    [
        *("", "ftp://stub.test/", "file:///etc/passwd", "gopher://stub.test/", "//stub.test/", "stub.test", "http://"),
        *("http:///x", "http://stub.test:0/", "http://stub.test:65536/", "http://stub.test:x/", "http://[::1/"),
        *("http://stub.test/\r\nX: y", "http://stub.test/\x00", "http://st\nub.test/", "http://xn--\u2488.test/"),
        *("http://ⓛocalhost/", "http://１２７.0.0.1/", "http://me:geheim@stub.test:x/", "http://s/" + "x" * 70_000),
    ],
)
async def test_invalid_urls_are_rejected(url: str) -> None:
    async with HttpServer().running() as server:
        client = client_of(server)
        error = await send_error(client, HttpRequest("GET", url))
        assert str(error).startswith("The URL ")
        assert "geheim" not in str(error)
        if url:
            assert str(await send_error(client, get(proxy=url))).startswith("The proxy URL ")
    assert server.received == []


async def test_international_names_are_resolved_in_ascii() -> None:
    hosts: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[tuple[str, int]]:
        hosts.append(host)
        return [("127.0.0.1", 1)]

    await send_error(make_client(resolve=resolve), HttpRequest("GET", "http://bücher.example/"))
    proxied = HttpRequest("GET", "http://bücher.example/", proxy="http://p.example")
    await send_error(make_client(resolve=resolve), proxied)
    assert hosts == ["xn--bcher-kva.example"] * 2


@each_row(
    ("name", "value"),
    [
        ("X-Key", "geheim\r\nHost: evil"),
        ("X-Key", "geheim\x00"),
        *((bad, "geheim") for bad in ("X Key", "", "X:", "Ü")),
    ],
)
async def test_invalid_headers_are_rejected(name: str, value: str) -> None:
    async with HttpServer().running() as server:
        error = await send_error(client_of(server), get(headers={name: value}))
    assert "header" in str(error)
    assert "geheim" not in str(error)
    assert server.received == []


@each_row("body", [float("nan"), {"a": {1, 2}}])
async def test_a_body_that_cannot_be_encoded_as_json_is_rejected(body: Any) -> None:
    async with HttpServer().running() as server:
        assert "JSON" in str(await send_error(client_of(server), HttpRequest("POST", "http://stub.test/", json=body)))


@each_row(
    "url",
    [
        *("127.0.0.1:{port}/", "2130706433:{port}/", "0x7f.1:{port}/", "0177.0.0.1:{port}/", "127.1:{port}/"),
        *("localhost:{port}/", "[::ffff:127.0.0.1]:{port}/", "[::1]:{port}/", "0:{port}/"),
        *("stub.test@127.0.0.1:{port}/", "127.0.0.1:{port}#@stub.test/", "stub.test\\@127.0.0.1:{port}/"),
    ],
)
async def test_local_addresses_are_refused(url: str) -> None:
    async with HttpServer([Route("/")]).running() as server:
        client = make_client(HttpSettings(allow=("*.test",)))
        error = await send_error(client, HttpRequest("GET", f"http://{url}".format(port=server.port)))
    assert any(word in str(error) for word in ("refused", "resolved", "cannot be parsed"))
    assert server.received == []


async def test_a_host_is_resolved_once_per_connection() -> None:
    """DNS rebinding fails: the connection uses the address that was checked, without a second look-up."""
    async with HttpServer([Route("/", body="inside")]).running() as server:
        answers = [[("127.0.0.1", server.port)], [("169.254.169.254", 80)]]

        async def resolve(host: str, port: int) -> Sequence[tuple[str, int]]:
            return answers.pop(0)

        client = make_client(HttpSettings(allow=("stub.test",)), resolve=resolve)
        assert (await client.send(get())).text == "inside"
        await client.aclose()
        assert "refused" in str(await send_error(client, get()))


async def test_the_next_address_is_tried_if_one_fails() -> None:
    async with HttpServer([Route("/", body="here")]).running() as server:

        async def resolve(host: str, port: int) -> Sequence[tuple[str, int]]:
            return [("127.0.0.1", 1), ("127.0.0.1", server.port)]

        client = make_client(HttpSettings(allow=("stub.test",)), resolve=resolve)
        assert (await client.send(get())).text == "here"


async def test_connections_are_reused_and_cookies_are_not() -> None:
    async with HttpServer([Route("/", headers={"Set-Cookie": "a=b"})]).running() as server:
        client = client_of(server)
        for _ in range(3):
            await client.send(get())
        await client.aclose()
        await client.send(get())
    assert [request.connection for request in server.received] == [1, 1, 1, 2]
    assert all(request.header("Cookie") is None for request in server.received)


# Connections of a loop that has ended cannot be closed any more.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_a_client_outlives_its_event_loop() -> None:
    client = GuardedHttpClient(HttpSettings(allow=("127.0.0.1",)))

    async def once() -> str:
        async with HttpServer([Route("/", body="ok")]).running() as server:
            return (await client.send(HttpRequest("GET", f"http://127.0.0.1:{server.port}/"))).text

    assert [asyncio.run(once()), asyncio.run(once())] == ["ok", "ok"]
    asyncio.run(client.aclose())
    gc.collect()


class TestLimits:
    @each_row(
        "route",
        [
            Route("/", body=b"x" * 1001),
            Route("/", pieces=[b"x" * 600, b"x" * 600]),
            Route("/", headers={"Content-Length": "1001"}, breaks=True),
            Route("/", body=gzip.compress(b"x" * 1_000_000), headers={"Content-Encoding": "gzip"}),
            Route("/", body=gzip.compress(bytes(range(256)) * 10, 0), headers={"Content-Encoding": "gzip"}),
        ],
    )
    async def test_too_large_responses_are_rejected(self, route: Route) -> None:
        async with HttpServer([route]).running() as server:
            error = await send_error(client_of(server, max_response_bytes=1000), get())
        assert "larger than the limit of 1,000 bytes" in str(error)

    async def test_a_request_can_have_a_lower_limit(self) -> None:
        async with HttpServer([Route("/", body=b"x" * 101)]).running() as server:
            request = get(max_response_bytes=100)
            error = await send_error(client_of(server, max_response_bytes=1000), request)
            assert "larger than the limit of 100 bytes." in str(error)
            request = get(max_response_bytes=10_000)
            assert "max_response_bytes" in str(await send_error(client_of(server, max_response_bytes=50), request))

    async def test_slow_responses_time_out(self) -> None:
        routes = [Route("/late", delay_ms=5000), Route("/drip", pieces=[b"x"] * 100, piece_delay_ms=50)]
        async with HttpServer(routes).running() as server:
            client = client_of(server)
            for path in ("/late", "/drip"):
                start = time.monotonic()
                error = await send_error(client, get(path, timeout_s=0.2))
                assert error.is_retryable
                assert str(error) == "'stub.test' did not answer within 0.2 s."
                assert time.monotonic() - start < 4.5
        async with HttpServer(routes).running() as server:
            assert "0.1 s" in str(await send_error(client_of(server, timeout_s=0.1), get("/late", timeout_s=60)))

    async def test_waiting_for_a_free_connection_counts_for_the_timeout(self) -> None:
        async with HttpServer([Route("/", delay_ms=300), Route("/first")]).running() as server:
            client = client_of(server, concurrency=1)
            await client.send(get("/first"))
            answers = await asyncio.gather(*(client.send(get(timeout_s=0.5)) for _ in range(3)), return_exceptions=True)
        assert sorted(type(answer).__name__ for answer in answers) == ["HttpResponse", "ServiceError", "ServiceError"]

    async def test_slow_name_resolution_times_out(self) -> None:
        async def resolve(host: str, port: int) -> Sequence[tuple[str, int]]:
            await asyncio.sleep(60)
            return []

        assert (await send_error(make_client(resolve=resolve), get(timeout_s=0.1))).is_retryable

    async def test_huge_headers_are_rejected(self) -> None:
        raw = b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 300_000 + b"\r\n\r\n"
        async with HttpServer([Route("/", raw=raw)]).running() as server:
            assert "valid, complete HTTP" in str(await send_error(client_of(server), get()))


class TestDecoding:
    @each_row(
        ("content_type", "body", "text"),
        [
            ("text/plain", "ü".encode(), "ü"),
            ("text/plain; charset=latin-1", b"\xfc", "ü"),
            ('text/plain; Charset="ISO-8859-1"', b"\xfc", "ü"),
            ("text/plain; charset=nonsense", "ü".encode(), "ü"),
            ("text/plain; charset=hex", b"66", "66"),
            ("text/plain; charset=punycode", b"tda", "tda"),
            ("text/plain", b"a\xff", "a\ufffd"),
            ("text/html", b"<head><meta charset='gbk'></head>\xc4\xe3", "<head><meta charset='gbk'></head>你"),
            ("", b'<meta content="text/html; charset=latin1">\xfc', '<meta content="text/html; charset=latin1">ü'),
            ("text/html; charset=utf-8", "<meta charset='gbk'>ü".encode(), "<meta charset='gbk'>ü"),
            ("text/html", "<meta charset='utf-16'>ü".encode(), "<meta charset='utf-16'>ü"),
            ("text/html", "<meta charset='hex'>ü".encode(), "<meta charset='hex'>ü"),
            ("application/xml", b"<?xml encoding='latin-1'?>\xfc", "<?xml encoding='latin-1'?>ü"),
            ("text/plain", b"<meta charset='latin-1'>" + "ü".encode(), "<meta charset='latin-1'>ü"),
            ("application/json", b"\xef\xbb\xbf{}", "{}"),
            ("text/html", b"\xff\xfe" + "ü".encode("utf-16-le"), "ü"),
        ],
    )
    async def test_text_is_decoded_with_its_charset(self, content_type: str, body: bytes, text: str) -> None:
        async with HttpServer([Route("/", headers={"Content-Type": content_type}, body=body)]).running() as server:
            assert (await client_of(server).send(get())).text == text

    async def test_gzip_is_decompressed(self) -> None:
        compressed = gzip.compress(b"hello " * 1000)
        pieces = [compressed[:10], compressed[10:]]
        route = Route("/", headers={"Content-Encoding": "gzip"}, pieces=pieces)
        async with HttpServer([route, Route("/head", headers={"Content-Encoding": "gzip"})]).running() as server:
            client = client_of(server)
            assert (await client.send(get())).text == "hello " * 1000
            assert (await client.send(HttpRequest("HEAD", "http://stub.test/head"))).text == ""

    @each_row(
        ("encoding", "body", "message"),
        [
            ("gzip", b"no gzip", "not valid gzip data"),
            ("gzip", gzip.compress(b"hello", mtime=0)[:-4], "in the middle"),
            ("gzip", gzip.compress(b"hello", mtime=0) * 2, "after the end"),
            ("gzip, gzip", gzip.compress(gzip.compress(b"x", mtime=0), mtime=0), "unsupported encoding 'gzip, gzip'"),
            ("br", b"x", "'br'"),
        ],
    )
    async def test_invalid_encodings_are_rejected(self, encoding: str, body: bytes, message: str) -> None:
        async with HttpServer([Route("/", headers={"Content-Encoding": encoding}, body=body)]).running() as server:
            assert message in str(await send_error(client_of(server), get()))


async def test_broken_connections_are_retryable() -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        # Without lingering, closing sends a reset.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    client = make_client(HttpSettings(allow=("127.0.0.1",)))
    error = await send_error(client, HttpRequest("GET", "http://127.0.0.1:1/"))
    assert str(error).startswith("Cannot connect to '127.0.0.1'")
    assert error.is_retryable
    for route in (
        Route("/", raw=b"SSH-2.0-OpenSSH\r\n"),
        Route("/", pieces=[b"x"], headers={"Content-Length": "10"}, breaks=True),
    ):
        async with HttpServer([route]).running() as server:
            error = await send_error(client_of(server), get())
        assert "valid, complete HTTP" in str(error)
        assert error.is_retryable
    async with await asyncio.start_server(reset, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert "The connection to" in str(await send_error(client, HttpRequest("GET", f"http://127.0.0.1:{port}/")))
