"""The names that complete a command line. Nothing is created: an unknown store has no sessions."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.server.cli.terminal import printable

if TYPE_CHECKING:
    from ragflow_lg.checkpoints import Store

MAX_SESSIONS = 500


def session_names(ctx: typer.Context) -> list[str]:
    """Return the names of the stored sessions, newest first, or nothing if the store cannot be read."""
    from ragflow_lg.server.cli.session_store import use_store
    from ragflow_lg.server.settings import load_settings

    async def read(store: Store) -> list[str]:
        return [printable(record.name or record.session) async for record in store.runs.sessions()]

    try:
        file = ctx.params.get("settings")
        names = use_store(load_settings(Path(file) if file else None), ctx.params.get("checkpoint") or "", read)
        return list(islice(names, MAX_SESSIONS))
    except (OSError, RagflowLgError):
        return []


def component_names() -> list[str]:
    """Return the names of all components and tools."""
    from ragflow_lg.server.assembly.library import catalog

    return [spec.name for spec in catalog()]


def prompt_names() -> list[str]:
    """Return the names of the engine's prompts."""
    from ragflow_lg.models.prompt_texts import PROMPTS

    return list(PROMPTS)
