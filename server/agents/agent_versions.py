"""Versions of an agent's canvas: the draft and the published ones. Resolves names to versions."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ragflow_lg.base.errors import RequestError, SettingsError
from ragflow_lg.base.values import JsonValue, empty_like, empty_of_type
from ragflow_lg.dsl.compatibility import canvas_of
from ragflow_lg.server.agents.drafts import check_draft, check_release
from ragflow_lg.server.assembly.canvas_files import canvas_files
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.tables import TITLE_CHARS, VersionRow
from ragflow_lg.server.observability.logs import audit

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.database import Database
    from ragflow_lg.server.database.tables import AgentRow

logger = logging.getLogger(__name__)

BUILT_IN = Path(__file__).parent / "templates"
MAX_TEMPLATES = 200
MAX_BYTES = 2 * 1024 * 1024


def check_templates(folder: Path | None) -> None:
    """Check that the folder of templates exists.

    Raises:
        SettingsError: if it does not.
    """
    if folder is not None and not folder.is_dir():
        raise SettingsError(f"[server] templates is {str(folder)!r}, but {str(folder.absolute())!r} is no folder.")


def load_templates(folder: Path | None) -> list[dict[str, Any]]:
    """Return the templates as RAGFlow's rows. This reads files, so call it in a thread.

    Each file contains a canvas, or an object with ``title``, ``description``, ``canvas_type`` and ``dsl``. Other files
    are skipped and logged.
    """
    paths = [path for source in (BUILT_IN, folder) if source is not None for path in canvas_files(source)]
    return [row for path in paths[:MAX_TEMPLATES] for row in _rows(path)]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
        document: Any = msgspec.json.decode(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        logger.warning("Skipping the template %s: %s", path, error)
        return
    fields = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    about = fields if isinstance(fields.get("dsl"), dict) else {"dsl": fields}
    if "components" not in about["dsl"]:
        logger.warning("Skipping the template %s: it is not a canvas.", path)
        return
    title = path.stem.replace("_", " ").capitalize()
    yield {
        "id": hashlib.sha256(path.name.encode()).hexdigest()[:32],
        "title": _in_languages(about.get("title") or title),
        "description": _in_languages(about.get("description") or ""),
        "canvas_type": str(about.get("canvas_type") or "Recommended"),
        "canvas_category": str(about.get("canvas_category") or "agent_canvas"),
        "avatar": about.get("avatar"),
        "dsl": canvas_of(about),
    }


def _in_languages(text: Any) -> dict[str, str]:
    """Return texts by language, as RAGFlow's web page expects them."""
    if isinstance(text, dict):
        return {str(language): str(value) for language, value in cast("dict[Any, Any]", text).items()}
    return {"en": str(text)}


_TURN_DATA = ("history", "retrieval", "memory", "path")


def reset_canvas(dsl: Mapping[str, Any]) -> dict[str, Any]:
    """Return a canvas without the data that earlier turns left in it.

    ``history``, ``retrieval``, ``memory`` and ``path`` are emptied, ``sys.*`` get their type's empty value, and
    ``env.*`` get the value declared in ``variables``.

    >>> reset_canvas({"path": ["begin"], "globals": {"sys.query": "Hi", "sys.conversation_turns": 3}})["globals"]
    {'sys.query': '', 'sys.conversation_turns': 0}
    """
    reset = {**dsl, **{name: list[Any]() for name in _TURN_DATA}}
    globals_: Any = dsl.get("globals")
    if isinstance(globals_, dict):
        variables: Any = dsl.get("variables")
        declarations = cast("dict[str, Any]", variables) if isinstance(variables, dict) else {}
        values = cast("dict[str, Any]", globals_)
        reset["globals"] = {name: _value(name, value, declarations) for name, value in values.items()}
    return reset


def _value(name: str, value: Any, declarations: Mapping[str, Any]) -> JsonValue:
    if name.startswith("sys."):
        return empty_like(value)
    if not name.startswith("env."):
        return value
    variable: Any = declarations.get(name.removeprefix("env."))
    if not isinstance(variable, dict):
        return ""
    fields = cast("dict[str, Any]", variable)
    return fields["value"] if fields.get("value") is not None else empty_of_type(str(fields.get("type") or ""))


DRAFT, PUBLISHED = "draft", "published"


def build_version(
    id_: str, agent_id: str, title: str, dsl: str, now_ms: int, *, is_released: bool, description: str = ""
) -> VersionRow:
    """Build the row for a version."""
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
    """Return a version: ``draft``, ``published`` (the last one) or the one with the given id.

    ``""`` means the version published last, or the draft if none has been published.

    Raises:
        RequestError: If there is no such version.
    """
    agents = AgentRepository(database, agent.tenant)
    version = await agents.released(agent.id) if name in ("", PUBLISHED) else None
    if version is None and name == PUBLISHED:
        raise RequestError("The agent has no published version; publish one first.", status=404)
    if version is None:
        version = await agents.version(agent.id, agent.version_id if name in ("", DRAFT) else name)
    if version is None:
        raise RequestError("Version not found.", status=404)
    return version


async def publish(
    app_state: AppState, agent: AgentRow, *, title: str = "", description: str = "", dsl: Any = None
) -> VersionRow:
    """Publish the draft as an immutable version. A ``dsl`` becomes the draft first.

    Raises:
        RequestError: If the canvas cannot run.
    """
    agents, now = AgentRepository(app_state.database, agent.tenant), app_state.now_ms()
    draft = await find_version(app_state.database, agent, DRAFT)
    settings, workers = app_state.settings_of(agent.tenant), app_state.services.workers
    text = draft.dsl if dsl is None else await check_draft(settings, workers, dsl)
    await check_release(settings, workers, text)
    if text != draft.dsl:
        new_draft = build_version(app_state.new_id(), agent.id, agent.title, text, now, is_released=False)
        await agents.change(agent.id, {"update_ms": now}, new_draft)
    name = (title or agent.title)[:TITLE_CHARS]
    version = build_version(app_state.new_id(), agent.id, name, text, now, is_released=True, description=description)
    await agents.add(version)
    audit("version.published", agent=agent.id, version=version.id)
    return version


async def delete_version(app_state: AppState, agent: AgentRow, version: VersionRow) -> None:
    """Delete an unused version.

    Raises:
        RequestError: If it is the draft or is used by sessions.
    """
    problem = ""
    if version.id == agent.version_id:
        problem = "This version is the agent's draft; save another draft first."
    elif users := await AgentRepository(app_state.database, agent.tenant).delete_version(agent.id, version.id):
        problem = f"{users} session{' uses' if users == 1 else 's use'} this version: delete them or pin another one."
    if problem:
        raise RequestError(problem, 103, status=409, reason="version-in-use")
    audit("version.deleted", agent=agent.id, version=version.id)


TRIAL_TITLE = "Trial"


@asynccontextmanager
async def stored_trial(app_state: AppState, agent: AgentRow, dsl: Any) -> AsyncGenerator[VersionRow]:
    """Store a version with this canvas. Neither the agent's draft nor what is published changes.

    It is an unpublished version. If the block fails before a session uses it, it is deleted. Later, like old drafts, it
    is deleted some time after no session uses it.

    Raises:
        RequestError: If the canvas cannot run, or takes too much time or memory to check.
    """
    settings, workers = app_state.settings_of(agent.tenant), app_state.services.workers
    text = await check_draft(settings, workers, dsl, is_released=True)
    draft = await find_version(app_state.database, agent, DRAFT)
    if text == draft.dsl:
        yield draft
        return
    now = app_state.now_ms()
    version = build_version(app_state.new_id(), agent.id, TRIAL_TITLE, text, now, is_released=False)
    agents = AgentRepository(app_state.database, agent.tenant)
    await agents.add_trial(version)
    try:
        yield version
    except BaseException:
        await agents.delete_version(agent.id, version.id)
        raise
