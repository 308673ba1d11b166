"""Loads what the first turn needs when the server starts: a client whose run is taken over must not wait for it."""

from __future__ import annotations

from importlib import import_module

from ragflow_lg.server.assembly.library import catalog

LAZY_MODULES = ("ragflow_lg.dsl_compiler.lower", "ragflow_lg.agents.plan_and_reflect", "ragflow_lg.agents.react")
"""Modules that are imported where they are used. Components and tools are further ones."""


async def load_turn_code() -> None:
    """Load all components, the compiler and the model client. This takes one to two seconds of processor time."""
    for name in LAZY_MODULES:
        import_module(name)
    for _ in catalog():
        pass
    from ragflow_lg.adapters.chat.openai_client import make_chat, open_connections

    async with open_connections(timeout_s=1.0) as connections:  # the library loads most of itself with its first client
        make_chat("none", connections, base_url="http://localhost", api_key="", timeout_s=1.0, counts_streams=False)
