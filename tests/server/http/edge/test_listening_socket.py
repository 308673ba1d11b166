import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.http.edge.listening_socket import get_url, open_socket


async def test_an_address_that_is_unavailable_is_refused() -> None:
    with open_socket("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(SettingsError, match=f"127.0.0.1 port {port}: address already in use.*--port 0"):
            open_socket("127.0.0.1", port)
    with pytest.raises(SettingsError, match=r"Cannot listen on no\.such\.host\.invalid"):
        open_socket("no.such.host.invalid", 0)


def test_urls_of_ipv4_and_ipv6_sockets() -> None:
    with open_socket("127.0.0.1", 0) as listener:
        assert get_url(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        listener = open_socket("::1", 0)
    except SettingsError:
        pytest.skip("this machine has no IPv6")
    with listener:
        assert get_url(listener) == f"http://[::1]:{listener.getsockname()[1]}"
