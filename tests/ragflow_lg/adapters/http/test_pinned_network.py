import time

import pytest

from ragflow_lg.adapters.http.address_guard import AddressGuard
from ragflow_lg.adapters.http.pinned_network import PinnedNetwork
from ragflow_lg.base.errors import ServiceError


async def test_socket_files_are_refused() -> None:
    with pytest.raises(ServiceError, match="socket file"):
        await PinnedNetwork(AddressGuard()).connect_unix_socket("/run/docker.sock")


async def test_sleep_waits() -> None:
    start = time.monotonic()
    await PinnedNetwork(AddressGuard()).sleep(0.02)
    assert time.monotonic() - start > 0.01
