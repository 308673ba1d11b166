from __future__ import annotations

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.http.edge.listening_socket import get_url, open_socket


async def test_a_port_that_is_taken_is_told() -> None:
    with open_socket("127.0.0.1", 0) as opened:
        port = opened.getsockname()[1]
        with pytest.raises(SettingsError, match=f"127.0.0.1 port {port}: address already in use.*--port 0"):
            open_socket("127.0.0.1", port)
    with pytest.raises(SettingsError, match=r"Nothing can listen at no\.such\.host\.invalid"):
        open_socket("no.such.host.invalid", 0)


def test_urls_of_both_kinds_of_address() -> None:
    with open_socket("127.0.0.1", 0) as opened:
        assert get_url(opened) == f"http://127.0.0.1:{opened.getsockname()[1]}"
    try:
        opened = open_socket("::1", 0)
    except SettingsError:
        pytest.skip("this machine has no IPv6")
    with opened:
        assert get_url(opened) == f"http://[::1]:{opened.getsockname()[1]}"
