import ssl
from collections.abc import Sequence

import pytest
import trustme

from ragflow_lg.adapters.http.address_guard import Resolver
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.services.http import HttpRequest
from tests.fakes.http_server import HttpServer, Route
from tests.harness.rows import each_row
from tests.ragflow_lg.adapters.http.clients import client_of, get, make_client, send_error


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def contexts(authority: trustme.CA, *names: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the server's and the client's TLS context for a certificate with these names."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert(*names).configure_cert(server)  # pyright: ignore[reportUnknownMemberType] - trustme is partly untyped
    authority.configure_trust(client)  # pyright: ignore[reportUnknownMemberType] - trustme is partly untyped
    return server, client


class TestTls:
    async def test_the_certificate_is_checked_against_the_name(self, authority: trustme.CA) -> None:
        tls, trust = contexts(authority, "stub.test")
        async with HttpServer([Route("/", body="safe")]).running(tls=tls) as server:
            client = make_client(HttpSettings(allow=("*.test",)), resolve=server.resolve, tls=trust)
            assert (await client.send(HttpRequest("GET", "https://stub.test/"))).text == "safe"
            assert "CERTIFICATE_VERIFY_FAILED" in str(
                await send_error(client, HttpRequest("GET", "https://other.test/"))
            )
            assert "CERTIFICATE" in str(await send_error(client_of(server), HttpRequest("GET", "https://stub.test/")))

    @pytest.mark.parametrize("proxy_has_tls", [False, True])
    async def test_https_requests_use_a_tunnel(self, authority: trustme.CA, proxy_has_tls: bool) -> None:
        tls, trust = contexts(authority, "stub.test", "proxy.test")
        async with HttpServer([Route("/", body="safe")]).running(tls=tls) as server:
            proxy = HttpServer(tunnel_port=server.port)
            async with proxy.running(tls=tls if proxy_has_tls else None):

                async def resolve(host: str, port: int) -> Sequence[tuple[str, int]]:
                    return (
                        [("127.0.0.1", proxy.port)] if host == "proxy.test" else [("fd00::5", port), ("10.0.0.5", port)]
                    )

                client = make_client(HttpSettings(allow=("*.test",)), resolve=resolve, tls=trust)
                via = f"{'https' if proxy_has_tls else 'http'}://me:pw@proxy.test:3128"
                answer = await client.send(HttpRequest("GET", "https://stub.test/", proxy=via))
                assert answer.text == "safe"
                assert "CERTIFICATE" in str(
                    await send_error(client, HttpRequest("GET", "https://other.test/", proxy=via))
                )
        assert proxy.received[0].path == "10.0.0.5:443"
        assert proxy.received[0].header("Proxy-Authorization") == "Basic bWU6cHc="
        assert server.received[0].header("Host") == "stub.test"
        assert server.received[0].header("Proxy-Authorization") is None


def resolver(proxy: str, proxy_port: int, target: str, target_port: int) -> Resolver:
    async def resolve(host: str, port: int) -> Sequence[tuple[str, int]]:
        return [(proxy, proxy_port) if host.startswith("proxy.") else (target, target_port)]

    return resolve


async def test_the_proxy_gets_the_checked_address() -> None:
    for target, port, place in (("127.0.0.1", 9, "127.0.0.1:9"), ("fd00::5", 80, "[fd00::5]:80")):
        async with HttpServer([Route(f"http://{place}/x", body="by proxy")]).running() as proxy:
            resolve = resolver("127.0.0.1", proxy.port, target, port)
            client = make_client(HttpSettings(allow=("*.test",)), resolve=resolve)
            assert (await client.send(get("/x", proxy="http://proxy.test:3128"))).text == "by proxy"
        assert proxy.received[0].header("Host") == "stub.test"


@each_row(
    ("target", "proxy"),
    [("127.0.0.1", "93.184.215.14"), ("169.254.169.254", "93.184.215.14"), ("93.184.215.14", "10.0.0.1")],
)
async def test_addresses_of_proxy_and_target_are_checked(target: str, proxy: str) -> None:
    client = make_client(resolve=resolver(proxy, 1, target, 80))
    request = HttpRequest("GET", "http://t.example/", proxy="http://proxy.example:1", timeout_s=5)
    assert "refused" in str(await send_error(client, request))


async def test_refusals_and_other_kinds_of_proxies_are_errors() -> None:
    async with HttpServer().running() as proxy:
        request = HttpRequest("GET", "https://stub.test/", proxy="http://proxy.test")
        assert "403" in str(await send_error(client_of(proxy), request))
        assert "only http" in str(await send_error(client_of(proxy), get(proxy="socks5://proxy.test")))
