import asyncio
import socket
from contextlib import ExitStack

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.http.edge.listening_socket import ACCEPTED_AT_ONCE, duplicate_socket, get_url, open_socket
from ragflow_lg.server.http.edge.uvicorn_server import _new_loop  # pyright: ignore[reportPrivateUsage]


async def test_an_address_that_is_unavailable_is_refused() -> None:
    with open_socket("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        for option in ("--port", "metrics_port"):
            expected = f"127.0.0.1 port {port}: address already in use. Choose another {option}, or 0 for a free port."
            with pytest.raises(SettingsError, match=expected):
                open_socket("127.0.0.1", port, option)


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_an_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(SettingsError, match=f"Cannot listen on {host} port 0: .+ Name an address of this machine."):
        open_socket(host, 0)


def test_urls_of_ipv4_and_ipv6_sockets() -> None:
    with open_socket("127.0.0.1", 0) as listener:
        assert get_url(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        listener = open_socket("::1", 0)
    except SettingsError:
        pytest.skip("this machine has no IPv6")
    with listener:
        assert get_url(listener) == f"http://[::1]:{listener.getsockname()[1]}"


def test_many_connections_are_accepted_in_an_iteration_of_the_event_loop() -> None:
    """A health check on a new connection must not wait for the work on all connections before it."""
    opened = 5 * ACCEPTED_AT_ONCE
    accepted: list[asyncio.BaseTransport] = []

    class Protocol(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted.append(transport)

    async def count_iterations() -> int:
        iterations = 0
        with ExitStack() as stack:
            listeners = duplicate_socket(open_socket("127.0.0.1", 0))
            loop = asyncio.get_running_loop()
            for listener in listeners:
                server = await loop.create_server(Protocol, sock=listener, backlog=1024)
                stack.callback(server.close)
            for _ in range(opened):
                stack.enter_context(socket.create_connection(listeners[0].getsockname()))
            while len(accepted) < opened:
                iterations += 1
                assert iterations < opened
                await asyncio.sleep(0)
            for transport in accepted:
                transport.close()
        return iterations

    with asyncio.Runner(loop_factory=_new_loop) as runner:
        assert runner.run(count_iterations()) < opened / 2


def test_connections_send_each_part_of_a_response_at_once() -> None:
    with open_socket("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
