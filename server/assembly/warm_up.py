"""Loads what the first turn needs in a thread, after the server has started: by then, it already answers requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
    "ragflow_lg.dsl_compiler.lower",
)
"""Modules that this project and LangChain import where they use them. Components and tools are further ones."""


_is_loading = Event()


def is_loading() -> bool:
    """Return whether the server has not yet loaded the code of turns."""
    return _is_loading.is_set()


def start_loading(then: Callable[[], object] = lambda: None) -> None:
    """Load the code of turns in a thread, which calls ``then`` at the end. The event loop does not end before it."""

    def load() -> None:
        try:
            load_turn_code()
        finally:
            _is_loading.clear()
        then()

    _is_loading.set()
    asyncio.get_running_loop().run_in_executor(None, load)


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
