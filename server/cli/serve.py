"""``ragflow-lg serve``: the HTTP server."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.options import Model, SettingsFile

if TYPE_CHECKING:
    from server.parts import Parts
    from server.settings import Settings

__all__ = ["DEFAULT_TENANT", "serve"]

DEFAULT_TENANT = "default"
"""Whose the first key is."""


def serve(
    host: Annotated[
        str | None, typer.Option("--host", help="Address to listen at; others than the loopback open the server.")
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", "-p", help="Port; 0 takes a free one.", min=0, max=65535)
    ] = None,
    model: Model = "",
    settings: SettingsFile = None,
) -> None:
    """Serve agents to RAGFlow's clients and to OpenAI's. docs/server.md tells how.

    The first line of the output is the address. The first start prints an API key, once. SIGTERM and Ctrl-C let runs
    stop at their next step, from which they can go on; a second one ends at once.

    Examples:
    ragflow-lg serve --model demo

    ragflow-lg serve --host 0.0.0.0 --port 9380 --settings production.toml
    """
    import asyncio

    from server.settings import load_settings

    loaded = load_settings(settings)
    given = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    asyncio.run(_serve(loaded.model_copy(update={"server": loaded.server.model_copy(update=given)}), model))


async def _serve(settings: Settings, model: str) -> None:
    from server.http.app import make_app
    from server.http.serving import serve as serve_app
    from server.mock_llm.serving import listening
    from server.parts import open_parts

    section = settings.server
    with listening(section.host, section.port) as opened:
        async with open_parts(settings, model=model) as parts:
            app = make_app(parts)
            key = await _first_key(parts)

            def announce(url: str) -> None:
                _tell(url)
                if key:
                    _tell(f"API key, shown this once: {key}")

            await serve_app(app, opened, announce, app.state.turns.drain, section.drain_s)


async def _first_key(parts: Parts) -> str:
    """Make a key if there never was one; give it, else ``""``."""
    from server.database.keys import KeyRepository

    keys = KeyRepository(parts.database)
    return "" if await keys.count() else await keys.create(DEFAULT_TENANT, parts.now_ms(), name="first start")


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
