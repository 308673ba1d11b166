"""Imports a pulled folder into this server: its agents are served here, and its sessions go on here."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from msgspec import Struct, field

from ragflow_lg.base.errors import CompileError, RagflowLgError, SettingsError
from ragflow_lg.server.migration.database_import import MovingAgent, draft_id, store_agent, store_session
from ragflow_lg.server.migration.puller import LocalAgent, first_problem, read_local_agent
from ragflow_lg.server.migration.thread_import import check_transcript, import_session
from ragflow_lg.server.migration.transcripts import read_session_file

if TYPE_CHECKING:
    from ragflow_lg.adapters.ragflow_api.remote_sessions import RemoteSession
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.engine.compiled_canvas import CompiledCanvas
    from ragflow_lg.server.database.database import Database
    from ragflow_lg.server.migration.folder import PulledFolder
    from ragflow_lg.server.migration.manifest import Manifest, PulledAgent
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.services import Services


class ImportReport(Struct):
    """What moved in."""

    agents: int = 0
    sessions: int = 0
    """Sessions that go on here, including those that did so before."""
    waiting: int = 0
    """Those that wait at a form."""
    checked: int = 0
    """Those whose messages are the same here as on the server."""
    problems: list[str] = field(default_factory=list[str])


class FolderImport:
    """Stores what a folder contains in the services that the settings describe."""

    def __init__(
        self,
        folder: PulledFolder,
        manifest: Manifest,
        settings: Settings,
        *,
        progress: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._folder = folder
        self._manifest = manifest
        self._settings = settings
        self._progress = progress
        self.report = ImportReport()

    async def move_in(self) -> ImportReport:
        """Store agents and sessions. What fails becomes a problem.

        Raises:
            DatabaseError: if the database fails.
            CheckpointError: if the store of sessions fails.
        """
        from ragflow_lg.adapters.system_services import SystemClock
        from ragflow_lg.checkpoints import open_store
        from ragflow_lg.server.assembly.open_services import open_services
        from ragflow_lg.server.database.database import open_database

        settings = self._settings
        async with (
            open_store(settings.checkpoints, SystemClock(), **settings.store_options) as store,
            open_database(settings.server.database.get_secret_value(), store.keys) as database,
            open_services(settings) as services,
        ):
            for number, (id_, pulled) in enumerate(self._manifest.agents.items(), 1):
                self._progress(f"moving in {number}/{len(self._manifest.agents)}: {pulled.title[:80]}")
                try:
                    agent = read_local_agent(self._folder, pulled.file)
                except CompileError:
                    continue  # the pull has reported it
                if agent is None or agent.id != id_:
                    continue
                await self._store_agent(database, services, pulled, agent)
                await self._store_sessions(database, store, services, pulled, agent)
        return self.report

    async def _store_agent(
        self, database: Database, services: Services, pulled: PulledAgent, agent: LocalAgent
    ) -> None:
        versions: list[tuple[str, str, int, Mapping[str, Any]]] = []
        for id_, version in pulled.versions.items():
            content = self._folder.read(version.file)
            if content is not None:
                versions.append((id_, version.title, version.update_ms, orjson.loads(content)["dsl"]))
        moving = MovingAgent(agent.document, agent.hash, pulled.moved_hash, versions)
        if problem := await store_agent(database, moving, int(services.clock.now() * 1000)):
            self.report.problems.append(f"{pulled.title}: {problem}")
            return
        pulled.moved_hash = agent.hash
        self.report.agents += 1

    async def _store_sessions(
        self, database: Database, store: Store, services: Services, pulled: PulledAgent, agent: LocalAgent
    ) -> None:
        for number, (id_, stored) in enumerate(pulled.sessions.items(), 1):
            content = self._folder.read(stored.file)
            if content is None or hashlib.sha256(content).hexdigest() != stored.hash:
                self.report.problems.append(f"{stored.file} was changed or deleted here; pull again to use the session")
                continue
            session = read_session_file(content, stored.file)
            if session.id != id_ or session.agent_id != agent.id:
                self.report.problems.append(f"{stored.file} is the file of another session")
                continue
            file, version_id = _find_version(pulled, agent, session)
            await store_session(database, session, version_id)
            await self._import(store, services, session, self._folder.absolute(file), stored.file)
            self._progress(f"sessions of {pulled.title[:80]}: {number}/{len(pulled.sessions)} moved in")

    async def _import(
        self, store: Store, services: Services, session: RemoteSession, canvas_file: Path, name: str
    ) -> None:
        try:
            canvas = self._compile(canvas_file)
            result = await import_session(session, canvas, store, services, str(canvas_file))
            difference = await check_transcript(session, canvas, store)
        except CompileError as error:
            reason = first_problem(error)
            self.report.problems.append(f"{name} can be read but not continued: the canvas has errors ({reason})")
            return
        except RagflowLgError as error:
            self.report.problems.append(f"{name} cannot be continued: {error}")
            return
        self.report.sessions += 1
        self.report.waiting += result.is_waiting
        self.report.checked += not difference
        if difference:
            self.report.problems.append(f"{name}: {difference}")
        if result.problem:
            self.report.problems.append(f"{name}: its form does not wait any more: {result.problem}. Ask again.")

    def _compile(self, file: Path) -> CompiledCanvas:
        from ragflow_lg.server.assembly.library import load_canvas

        if not file.is_file():
            raise SettingsError(f"its canvas {file.name} is missing")
        return load_canvas(file, self._settings, asks_servers=False)


def _find_version(pulled: PulledAgent, agent: LocalAgent, session: RemoteSession) -> tuple[str, str]:
    """Return the file and the id of the version with which a session goes on: its published one, or the draft."""
    for id_, version in pulled.versions.items():
        if version.title and version.title == session.version_title:
            return version.file, id_
    return agent.file, draft_id(agent.id, agent.hash)
