"""What the client never asks of a network."""

from __future__ import annotations

import pytest

from ragflow_lg.adapters.http.address_guard import AddressGuard
from ragflow_lg.adapters.http.pinned_network import PinnedNetwork
from ragflow_lg.base.errors import ServiceError


async def test_socket_files_are_refused():
    with pytest.raises(ServiceError, match="socket file"):
        await PinnedNetwork(AddressGuard()).connect_unix_socket("/run/docker.sock")


async def test_sleep():
    await PinnedNetwork(AddressGuard()).sleep(0)
