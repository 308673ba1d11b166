"""Lets a connection read no more before its reader has run.

A reader of anyio's connections, which httpx uses, starts reading when it waits, and stops when it runs again. In an
event loop in which tenants take turns, that can be much later: until then, everything that the other side sends would
be kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from typing import Any

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


def read_in_turn(factory: ProtocolFactory) -> ProtocolFactory:
    """Return a factory of protocols that pause after each piece of data, if the protocol is one of anyio's.

    Its readers resume reading themselves. Other protocols limit what they keep.
    """
    return _make_pausing(factory) if isinstance(factory, type) and factory.__module__.startswith("anyio.") else factory


@cache
def _make_pausing(base: Any) -> ProtocolFactory:
    class PausingProtocol(base):
        def connection_made(self, transport: asyncio.Transport) -> None:
            self._own_transport = transport
            base.connection_made(self, transport)

        def data_received(self, data: bytes) -> None:
            base.data_received(self, data)
            if not self._own_transport.is_closing():
                self._own_transport.pause_reading()

    return PausingProtocol
