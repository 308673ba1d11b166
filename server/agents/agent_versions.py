"""Versions of an agent's canvas: the draft, published ones, and which of them is meant."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import orjson

from ragflow_lg.base.errors import RequestError
from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.server.assembly.canvas_files import CanvasFiles
from ragflow_lg.server.assembly.library import catalog
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.tables import TITLE_CHARS, VersionRow
from ragflow_lg.server.observability.audit import audit

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.database import Database
    from ragflow_lg.server.database.tables import AgentRow
    from ragflow_lg.server.settings import Settings

__all__ = ["DRAFT", "PUBLISHED", "check_draft", "delete_version", "build_version", "publish", "find_version"]

DRAFT, PUBLISHED = "draft", "published"

_REFUSED = frozenset(
    {
        "json-invalid",
        "document-too-large",
        "document-shape",
        "document-empty",
        "pipeline-document",
        "legacy-component",
        "component-unknown",
        "params-invalid",
        "id-invalid",
    }
)
"""Errors with which a canvas cannot even be a draft; all others are told when it is run."""


async def check_draft(settings: Settings, dsl: Any) -> str:
    """Give a canvas, a JSON object or its text, as it is stored. It is checked in a thread: others go on meanwhile.

    Raises:
        RequestError: if it cannot be a draft.
    """
    return await asyncio.to_thread(_checked, settings, dsl)


def _checked(settings: Settings, dsl: Any) -> str:
    source: Any = dsl
    if isinstance(dsl, str):
        try:
            source = orjson.loads(dsl)
        except orjson.JSONDecodeError as error:
            raise _no_draft(f"The DSL is not JSON: {error}.") from None
    if not isinstance(source, dict):
        raise _no_draft("The DSL should be a JSON object.")
    held = cast("dict[str, Any]", source)
    if isinstance(held.get("dsl"), dict) and not held.keys() & {"components", "graph"}:
        source = held["dsl"]  # a template: clients look for the graph at the top of what is stored
    try:
        text = orjson.dumps(source).decode()
    except TypeError as error:  # numbers beyond 64 bit
        raise _no_draft(f"The DSL cannot be stored: {error}.") from None
    _, diagnostics = check_canvas(cast("dict[str, Any]", source), catalog(), CanvasFiles(lambda: settings))
    if problems := [str(d) for d in diagnostics if d.severity == "error" and d.code in _REFUSED]:
        raise _no_draft("\n".join(problems))
    return text


def _no_draft(text: str) -> RequestError:
    return RequestError(text, 101, status=422, data=False, has_data=True, reason="canvas-invalid")


def build_version(
    id_: str, agent_id: str, title: str, dsl: str, now_ms: int, *, is_released: bool, description: str = ""
) -> VersionRow:
    """Make the row of a version."""
    return VersionRow(
        id=id_,
        agent_id=agent_id,
        title=title,
        description=description,
        dsl=dsl,
        is_released=is_released,
        create_ms=now_ms,
        update_ms=now_ms,
    )


async def find_version(database: Database, agent: AgentRow, name: str) -> VersionRow:
    """Give the version that is meant: ``draft``, ``published`` (the last one), or an id.

    ``""`` is the one that was published last, or the draft where none was.

    Raises:
        RequestError: if there is none.
    """
    agents = AgentRepository(database, agent.tenant)
    found = await agents.released(agent.id) if name in ("", PUBLISHED) else None
    if found is None and name == PUBLISHED:
        raise RequestError("The agent has no published version; publish one first.", status=404)
    if found is None:
        found = await agents.version(agent.id, agent.version_id if name in ("", DRAFT) else name)
    if found is None:
        raise RequestError("Version not found.", status=404)
    return found


async def publish(
    app_state: AppState, agent: AgentRow, *, title: str = "", description: str = "", dsl: Any = None
) -> VersionRow:
    """Publish the draft as a version of its own, which nothing changes any more. A ``dsl`` becomes the draft first.

    Raises:
        RequestError: if there is nothing to publish, or the canvas is none.
    """
    agents, now = AgentRepository(app_state.database, agent.tenant), app_state.now_ms()
    draft = await find_version(app_state.database, agent, DRAFT)
    text = draft.dsl if dsl is None else await check_draft(app_state.settings, dsl)
    if text != draft.dsl:
        changed = build_version(app_state.new_id(), agent.id, agent.title, text, now, is_released=False)
        await agents.change(agent.id, {"update_ms": now}, changed)
    name = (title or agent.title)[:TITLE_CHARS]
    made = build_version(app_state.new_id(), agent.id, name, text, now, is_released=True, description=description)
    await agents.add_version(made)
    audit("version.published", agent=agent.id, version=made.id)
    return made


async def delete_version(app_state: AppState, agent: AgentRow, version: VersionRow) -> None:
    """Delete a version that nothing needs.

    Raises:
        RequestError: if it is the draft, or sessions keep to it.
    """
    problem = ""
    if version.id == agent.version_id:
        problem = "This is the agent's draft; change that first."
    elif users := await AgentRepository(app_state.database, agent.tenant).delete_version(agent.id, version.id):
        problem = f"{users} session{'' if users == 1 else 's'} keep to this version: delete them, or pin another one."
    if problem:
        raise RequestError(problem, 103, status=409, reason="version-in-use")
    audit("version.deleted", agent=agent.id, version=version.id)
