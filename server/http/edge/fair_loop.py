"""An event loop in which tenants take turns. `fair_calls` says who is next."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import cache, partial
from typing import Any, TypeVarTuple

from ragflow_lg.server.http.edge.fair_calls import Call, FairCalls

_Arguments = TypeVarTuple("_Arguments")
_NO_TENANT = Context()

PAUSE_S = 0.001
"""How long the loop waits before it looks whether a tenant may go on. Timers are not more precise."""

logger = logging.getLogger(__name__)

ProtocolFactory = Callable[[], asyncio.BaseProtocol]
FindTenant = Callable[[Context | None], str]
"""Returns the tenant for whom something is called in a context, or in the current one; ``""`` if there is none."""


class _FairLoop:
    """What an event loop of tenants that take turns does in its own way."""

    def __init__(self, find_tenant: FindTenant) -> None:
        base: Any = super()
        base.__init__()
        self._call_now = base.call_soon
        self._connect = base.create_connection
        self._run_in_thread = base.run_in_executor
        self._call_later = base.call_later
        self._find_tenant = find_tenant
        self._fair_calls = FairCalls(report=_report_load)
        self._is_scheduled = False
        self._timer: asyncio.TimerHandle | None = None

    def call_soon(
        self,
        callback: Callable[[*_Arguments], object],
        *args: *_Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        tenant = self._find_tenant(context)
        if not tenant:
            return self._call_now(callback, *args, context=context)
        loop: Any = self
        call = Call(callback, args, loop, context if context is not None else copy_context())
        self._fair_calls.add(tenant, call)
        self._schedule()
        return call

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        tenant = self._find_tenant(None)
        work = partial(self._work_for, tenant, func) if tenant else func
        return self._run_in_thread(executor, work, *args)

    def _work_for(self, tenant: str, func: Callable[..., Any], *args: Any) -> Any:
        began_s = time.thread_time()
        try:
            return func(*args)
        finally:
            self._fair_calls.note_thread(tenant, time.thread_time() - began_s)

    async def create_connection(self, protocol_factory: ProtocolFactory, *args: Any, **options: Any) -> Any:
        return await self._connect(read_in_turn(protocol_factory), *args, **options)

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_now(self._run_fair_calls, context=_NO_TENANT)

    def _run_fair_calls(self) -> None:
        self._is_scheduled = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        may_run = True
        try:
            may_run = self._fair_calls.run()
        finally:
            if self._fair_calls and may_run:
                self._schedule()
            elif self._fair_calls:
                self._timer = self._call_later(PAUSE_S, self._run_fair_calls, context=_NO_TENANT)


def _report_load(tenant: str) -> None:
    logger.info("Tenant %s loads the event loop, and waits while others need it.", tenant)


def make_fair_loop(base: type[asyncio.AbstractEventLoop], find_tenant: FindTenant) -> asyncio.AbstractEventLoop:
    """Create an event loop of a class, in which tenants take turns. Calls without a tenant do not wait for them."""
    return type("FairLoop", (_FairLoop, base), {})(find_tenant)


def read_in_turn(factory: ProtocolFactory) -> ProtocolFactory:
    """Return a factory of protocols that pause after each piece of data, if the protocol is one of anyio's.

    A reader of anyio's connections, which httpx uses, starts reading when it waits, and stops when it runs again. Here,
    that can be much later: until then, everything that the other side sends would be kept. Its readers resume reading
    themselves. Other protocols limit what they keep.
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
