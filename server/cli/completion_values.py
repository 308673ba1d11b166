"""Values that complete a command line: names of sessions, nodes, components and prompts.

Nothing is asked or created: an unknown store or canvas has no values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import RagflowLgError

if TYPE_CHECKING:
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.services.sessions import RunRecord

Given = Mapping[str, str]
Provide = Callable[[Sequence[str], Given], Iterable[str]]
"""Returns values for a place after these arguments and options of the command."""

MAX_SESSIONS = 500


def session_names(words: Sequence[str], given: Given) -> list[str]:
    """Return the names of the stored sessions, newest first."""
    return [record.name or record.session for record in _records(given)]


def node_names(words: Sequence[str], given: Given) -> list[str]:
    """Return the ids and titles of the nodes in the canvas of a session."""
    from ragflow_lg.server.assembly.canvas_files import read_canvas
    from ragflow_lg.server.assembly.library import catalog

    session = words[0] if words else ""
    used = (record.canvas_id for record in _records(given) if session in (record.name, record.session))
    file = given.get("canvas") or next(used, "")
    try:
        content = read_canvas(Path(file)) if file else b""
    except RagflowLgError:
        return []
    from ragflow_lg.dsl_compiler import check_canvas

    plan = check_canvas(content, catalog())[0] if content else None
    nodes = list(plan.nodes.values()) if plan is not None else []
    return [*(node.id for node in nodes), *(node.title for node in nodes if node.title)]


def component_names(words: Sequence[str], given: Given) -> list[str]:
    """Return the names of all components and tools."""
    from ragflow_lg.server.assembly.library import catalog

    return [spec.name for spec in catalog()]


def prompt_names(words: Sequence[str], given: Given) -> list[str]:
    """Return the names of the engine's prompts."""
    from ragflow_lg.models.prompt_texts import PROMPTS

    return list(PROMPTS)


def _records(given: Given) -> list[RunRecord]:
    """Return the newest run of each session, or nothing if the store cannot be read or is not there yet."""
    from ragflow_lg.checkpoints.store_url import sqlite_path, store_kind
    from ragflow_lg.server.cli.session_store import use_store
    from ragflow_lg.server.settings import load_settings

    async def read(store: Store) -> list[RunRecord]:
        records: list[RunRecord] = []
        async for record in store.runs.sessions():
            records.append(record)
            if len(records) == MAX_SESSIONS:
                break
        return records

    try:
        settings = load_settings(Path(given["settings"]) if given.get("settings") else None)
        url = given.get("checkpoint") or settings.checkpoints
        if store_kind(url) == "sqlite" and not sqlite_path(url).exists():
            return []
        return use_store(settings, url, read)
    except (OSError, RagflowLgError):
        return []


VALUES: Mapping[tuple[str, str], Provide] = {
    ("", "session"): session_names,
    ("sessions", "delete"): session_names,
    ("rerun", "node"): node_names,
    ("components", "name"): component_names,
    ("prompts", "name"): prompt_names,
}
"""What completes a parameter of a command; an empty command stands for all of them."""
