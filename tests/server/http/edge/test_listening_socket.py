import socket

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.http.edge.uvicorn_server import get_url, open_socket


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


def test_connections_send_each_part_of_a_response_at_once() -> None:
    with open_socket("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
