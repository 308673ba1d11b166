"""Agents of canvas files: one agent for each file, whose draft follows the file."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from ragflow_lg.base.errors import CompileError, RagflowLgError, RequestError, SettingsError
from ragflow_lg.base.lenient_values import as_map, as_text
from ragflow_lg.base.tasks import running
from ragflow_lg.server.agents.agent_versions import build_version
from ragflow_lg.server.agents.drafts import check_draft, find_diagnostics
from ragflow_lg.server.assembly.canvas_files import canvas_files, is_canvas
from ragflow_lg.server.database.agent_repository import AgentQuery, AgentRepository
from ragflow_lg.server.database.tables import TITLE_CHARS, AgentRow

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState

CATEGORY = "agent_canvas"
EXAMPLE = "Example"
"""The ``canvas_type`` of examples."""

LOOK_S = 1.0
"""Time between two looks at the files."""

MAX_BYTES = 16 * 1024**2
MAX_FILES = 1_000

logger = logging.getLogger(__name__)


class CanvasFiles:
    """The canvases of a tenant's files and folders. An agent has the name of its file, without ``.json``."""

    def __init__(self, app_state: AppState, tenant: str, paths: Sequence[Path]) -> None:
        self._app_state = app_state
        self._tenant = tenant
        self._paths = paths
        self._seen: dict[Path, tuple[int, int]] = {}
        self._foreign: dict[Path, tuple[int, int]] = {}
        self.errors: list[CompileError] = []
        """Why canvases that the last call of `store` has stored cannot run, with positions in the files."""
        self.skipped: list[str] = []
        """Why canvases in the folders could not be stored by the last call of `store`."""

    @property
    def named(self) -> list[Path]:
        """The files that have been stored."""
        return [*self._seen]

    async def store(self) -> list[str]:
        """Store the files that are new or have changed. Return the ids of their agents.

        JSON files in the folders that are not canvases are left out.

        Raises:
            RagflowLgError: if a named file cannot be read, or its canvas cannot be a draft; the others are stored.
        """
        stored: list[str] = []
        failures: list[str] = []
        self.errors, self.skipped = [], []
        for file in await asyncio.to_thread(self._find):
            try:
                stamp = await asyncio.to_thread(_stamp, file)
                if self._seen.get(file) == stamp:
                    continue
                self._seen[file] = stamp  # a wrong file is reported once, until it is saved again
                text = await asyncio.to_thread(_read, file)
                stored.append(await self._store(file, text))
            except RagflowLgError as error:
                reason = str(error) if isinstance(error, CompileError) else f"{file}: {error}"
                (failures if file in self._paths else self.skipped).append(reason)
        if failures:
            raise SettingsError("\n".join(failures))
        return stored

    def _find(self) -> list[Path]:
        files = [
            file
            for path in self._paths
            for file in (filter(self._may_be_canvas, canvas_files(path)) if path.is_dir() else [path])
        ]  # without those of subfolders
        titles = [file.stem for file in files]
        if twice := next((file for file in files if titles.count(file.stem) > 1), None):
            raise SettingsError(f"Two files are named {twice.stem!r}: agents have the names of their files.")
        if len(files) > MAX_FILES:
            raise SettingsError(f"There are {len(files):,} canvas files; at most {MAX_FILES:,} can be served.")
        return files

    def _may_be_canvas(self, file: Path) -> bool:
        """Return False for a file that something else has written. A file that cannot be read may be a canvas."""
        if file in self._seen:
            return True
        try:
            stamp = _stamp(file)
            if self._foreign.get(file) == stamp:
                return False
            if is_canvas(file):
                return True
        except SettingsError:
            return True
        self._foreign[file] = stamp
        return False

    async def _store(self, file: Path, text: str) -> str:
        title = file.stem
        if len(title) > TITLE_CHARS:
            raise SettingsError(f"The name of the file is too long for an agent: at most {TITLE_CHARS} characters.")
        app_state, now = self._app_state, self._app_state.now_ms()
        dsl = await self._check(file, text)
        agents = AgentRepository(app_state.database, self._tenant)
        found, _ = await agents.find(AgentQuery(title=title, categories=(CATEGORY,)))
        agent = next((row for row in found if row.title == title), None)
        if agent is None:
            agent = AgentRow(
                id=app_state.new_id(),
                title=title,
                title_key=title.casefold()[:TITLE_CHARS],
                create_ms=now,
                update_ms=now,
                canvas_category=CATEGORY,
                **_describe(file, text),
            )
            version = build_version(app_state.new_id(), agent.id, title, dsl, now, is_released=False)
            agent.version_id = version.id
            await agents.create(agent, version)
            return agent.id
        draft, about = await agents.version(agent.id, agent.version_id), _describe(file, text)
        if draft is None or draft.dsl != dsl:
            version = build_version(app_state.new_id(), agent.id, title, dsl, now, is_released=False)
            await agents.change(agent.id, {"update_ms": now, **about}, version)
        elif agent.description == about["description"] and (agent.translations or "") != about["translations"]:
            await agents.change(agent.id, {"translations": about["translations"]}, None)
        return agent.id

    async def _check(self, file: Path, text: str) -> str:
        """Return a canvas in its stored form. Errors have positions in the file, not in that form."""
        settings, workers = self._app_state.settings_of(self._tenant), self._app_state.services.workers
        _, diagnostics = await find_diagnostics(workers, settings, text.encode())
        error = CompileError(diagnostics, file=str(file))
        has_errors = any(diagnostic.severity == "error" for diagnostic in diagnostics)
        try:
            dsl = await check_draft(settings, workers, text)
        except RequestError as refusal:
            raise (error if has_errors and refusal.reason == "canvas-invalid" else refusal) from None
        if has_errors:
            self.errors.append(error)
        return dsl


def following_canvas_files(files: CanvasFiles) -> AbstractAsyncContextManager[None]:
    """Store changed files inside the context, a second after they are saved."""
    return running(partial(_follow, files), "follow canvas files")


async def _follow(files: CanvasFiles) -> None:
    while True:
        await asyncio.sleep(LOOK_S)
        try:
            if changed := await files.store():
                logger.info("%s canvas files changed", len(changed))
            for error in files.errors:
                logger.warning("A canvas cannot run: %s", error)
            for reason in files.skipped:
                logger.warning("A canvas file cannot be used: %s", reason)
        except RagflowLgError as error:
            logger.warning("A canvas file cannot be used: %s", error)


def _describe(file: Path, text: str) -> dict[str, str]:
    """Return what an exported file says of its canvas. The files of a folder ``examples`` are examples."""
    document = as_map(orjson.loads(text))
    titles, texts = as_map(document.get("title")), document.get("description")
    description = texts if isinstance(texts, str) else as_text(as_map(texts).get("en"))
    translations = {
        language: {"title": as_text(titles.get(language)), "description": as_text(as_map(texts).get(language))}
        for language in titles
        if language != "en"
    }
    is_example = file.absolute().parent.name == "examples" or document.get("canvas_type") == EXAMPLE
    avatar = as_text(document.get("avatar"))
    return {
        "description": description,
        "translations": orjson.dumps(translations).decode() if translations else "",
        "avatar": avatar,
        "canvas_type": EXAMPLE if is_example else "",
    }


def _stamp(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except OSError as error:
        raise SettingsError(f"The file cannot be read: {error.strerror}.") from None
    if status.st_size > MAX_BYTES:
        raise SettingsError(f"The file has {status.st_size:,} bytes; at most {MAX_BYTES:,} are allowed.")
    return status.st_mtime_ns, status.st_size


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8-sig")
    except OSError as error:
        raise SettingsError(f"The file cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingsError("The file is not UTF-8.") from None
