"""Loads what the first turn needs in a thread, after the server has started: by then, it already answers requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from threading import Event

from ragflow_lg.server.assembly.library import catalog

LAZY_MODULES = (
    "jwt",
    "langchain_core.messages.block_translators.langchain_v0",
    "langchain_core.tracers.context",
    "langchain_core.tracers.stdout",
    "langgraph.graph",
    "openai",
    "ragflow_lg.adapters.chat.openai_client",
    "ragflow_lg.agents.deep_research",
    "ragflow_lg.agents.plan_and_reflect",
    "ragflow_lg.agents.react",
    "ragflow_lg.dsl_compiler.lower",
)
"""Modules that this project and LangChain import where they use them. Components and tools are further ones."""


_is_loading = Event()


def is_loading() -> bool:
    """Return whether the server has not yet loaded the code of turns."""
    return _is_loading.is_set()


@contextmanager
def loading_turn_code(then: Callable[[], object] = lambda: None) -> Generator[Callable[[], object]]:
    """Yield a function that starts loading the code of turns in a thread. After the block, it loads no more modules.

    When all code is loaded, the thread calls ``then``.
    The event loop does not end before the thread: it could crash in a compiled module that is just being loaded.
    """
    stop = Event()
    _is_loading.set()
    try:
        yield lambda: asyncio.get_running_loop().run_in_executor(None, _load_until, stop, then)
    finally:
        stop.set()
        _is_loading.clear()


def _load_until(stop: Event, then: Callable[[], object]) -> None:
    for name in LAZY_MODULES:
        if stop.is_set():
            return
        import_module(name)
    load_turn_code()
    _is_loading.clear()
    then()


@cache
def load_turn_code() -> None:
    """Load all components, the compiler and the model client, or wait until another thread has loaded them.

    This takes one to two seconds of processor time. Turns call it in a thread before they begin, because imports on the
    event loop would stop everybody's streams.
    """
    for name in LAZY_MODULES:
        import_module(name)
    for _ in catalog():
        pass
    asyncio.run(_create_client())


async def _create_client() -> None:
    from ragflow_lg.adapters.chat.openai_client import make_chat, open_connections

    async with open_connections(timeout_s=1.0) as connections:  # the library loads most of itself with its first client
        make_chat("none", connections, base_url="http://localhost", api_key="", timeout_s=1.0, counts_streams=False)
