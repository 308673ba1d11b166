"""Imports a pulled folder: its agents are served here under the ids that clients know, and its sessions go on here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from ragflow_lg.base.errors import CompileError, RagflowLgError, RequestError, SettingsError
from ragflow_lg.dsl.compatibility import canvas_of
from ragflow_lg.integrations.migration.puller import LocalAgent, first_problem, read_local_agent
from ragflow_lg.integrations.migration.thread_import import (
    check_transcript,
    import_session,
    is_behind,
    read_session_file,
    transcript_of,
)
from ragflow_lg.server.agents.agent_versions import build_version
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.session_repository import SessionRepository
from ragflow_lg.server.database.tables import ID_CHARS, TITLE_CHARS, AgentRow, MessageRow, SessionRow
from ragflow_lg.server.database.turn_writer import write_reference

if TYPE_CHECKING:
    from ragflow_lg.adapters.ragflow_api.remote_sessions import RemoteSession
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.engine.compiled_canvas import CompiledCanvas
    from ragflow_lg.integrations.migration.folder import Manifest, PulledAgent, PulledFolder
    from ragflow_lg.server.database.database import Database
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.services import Services


TENANT = "default"
"""The tenant of the first API key of a new server."""


ImportedVersion = tuple[str, str, int, Mapping[str, Any]]
"""The id, title, time and canvas of a published version."""


def draft_id(agent_id: str, hash_: str) -> str:
    """Return the id of an imported draft, by which an edited one is recognized."""
    return sha256(f"{agent_id}:{hash_}".encode()).hexdigest()[:ID_CHARS]


async def store_agent(
    database: Database, agent: LocalAgent, versions: Sequence[ImportedVersion], previous_hash: str, now_ms: int
) -> str:
    """Store an agent with its versions, or update it. Return why it was not, or ``""``.

    An agent whose draft has been edited on this server is left alone. ``previous_hash`` is that of the file at the pull
    before, or ``""``.

    Raises:
        DatabaseError: if the database fails.
    """
    document, agents = agent.document, AgentRepository(database, TENANT)
    id_ = str(document.get("id", ""))
    if len(id_) > ID_CHARS:
        return f"its id has more than {ID_CHARS} characters"
    title = str(document.get("title", ""))[:TITLE_CHARS]
    draft = build_version(draft_id(id_, agent.hash), id_, title, _dump(canvas_of(document)), now_ms, is_released=False)
    known = await agents.get(id_)
    if known is None:
        row = AgentRow(id=id_, create_ms=now_ms, update_ms=now_ms, version_id=draft.id)
        row.canvas_category = str(document.get("canvas_category") or "agent_canvas")[:32]
        row.canvas_type = str(document.get("canvas_type", ""))[:64]
        row.description, row.avatar = str(document.get("description", "")), str(document.get("avatar", ""))
        row.title, row.title_key = title, title.casefold()[:TITLE_CHARS]
        try:
            await agents.create(row, draft)
        except RequestError:  # RAGFlow's titles need not be unique
            row.title = f"{title[: TITLE_CHARS - 11]} ({id_[:8]})"
            row.title_key = row.title.casefold()[:TITLE_CHARS]
            await agents.create(row, draft)
    elif known.version_id != draft.id:
        if known.version_id != draft_id(id_, previous_hash):
            return "its draft was edited on this server, and is kept"
        if await agents.version(id_, draft.id) is None:
            await agents.change(id_, {"update_ms": now_ms}, draft)
        else:  # the file is as it was before another change
            await agents.change(id_, {"update_ms": now_ms, "version_id": draft.id}, None)
    for version_id, version_title, update_ms, dsl in versions:
        if len(version_id) <= ID_CHARS and await agents.version(id_, version_id) is None:
            time = update_ms or now_ms
            row = build_version(version_id, id_, version_title, _dump(dsl), time, is_released=True)
            await agents.add(row)
    return ""


async def store_session(database: Database, session: RemoteSession, version_id: str) -> bool:
    """Store a session with its messages and their sources, or what it has gone on there.

    Return False if it is here already, or its id is too long.

    Raises:
        DatabaseError: if the database fails.
    """
    sessions = SessionRepository(database, TENANT)
    if len(session.id) > ID_CHARS:
        return False
    if (known := await sessions.get(session.id)) is not None:
        rows = (await sessions.messages([session.id]))[session.id]
        if not is_behind([(row.role, row.content) for row in rows], transcript_of(session.messages)):
            return False
        await sessions.delete(known.agent_id, session.id)
    row = SessionRow(
        id=session.id,
        agent_id=session.agent_id,
        version_id=version_id,
        user_id=session.user_id,
        exp_user_id=session.exp_user_id,
        name=session.name,
        source=session.source if session.source in ("agent", "workflow") else "agent",
        tokens=session.tokens,
        rounds=min(session.round, 2**31 - 1),
        errors=session.errors,
        create_ms=session.create_ms,
        update_ms=session.update_ms,
    )
    messages: list[MessageRow] = []
    for number, message in enumerate(session.messages):
        stored = MessageRow(session_id=session.id, number=number, role=message.role, content=message.content)
        stored.run_id = message.id if len(message.id) <= ID_CHARS else ""
        stored.reference = write_reference({"chunks": message.chunks, "doc_aggs": message.documents})
        stored.create_ms = int(message.created_at * 1000) or session.create_ms
        messages.append(stored)
    await sessions.add(row, *messages)
    return True


def _dump(dsl: Any) -> str:
    return json.dumps(dsl, ensure_ascii=False)


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


class FolderImport(Struct):
    """Stores what a folder contains in the services that the settings describe."""

    folder: PulledFolder
    manifest: Manifest
    settings: Settings
    progress: Callable[[str], None]
    report: ImportReport = field(default_factory=ImportReport)

    async def move_in(self) -> ImportReport:
        """Store agents and sessions. What fails becomes a problem.

        Raises:
            DatabaseError: if the database fails.
            CheckpointError: if the store of sessions fails.
        """
        from ragflow_lg.checkpoints import open_store
        from ragflow_lg.server.assembly.open_services import open_services
        from ragflow_lg.server.database.database import open_database

        settings = self.settings
        async with (
            open_store(settings.checkpoints, **settings.store_options) as store,
            open_database(settings.server.database.get_secret_value(), store.keys) as database,
            open_services(settings) as services,
        ):
            for number, (id_, pulled) in enumerate(self.manifest.agents.items(), 1):
                self.progress(f"moving in {number}/{len(self.manifest.agents)}: {pulled.title[:80]}")
                try:
                    agent = read_local_agent(self.folder, pulled.file)
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
        versions: list[ImportedVersion] = []
        for id_, version in pulled.versions.items():
            content = self.folder.read(version.file)
            if content is not None:
                versions.append((id_, version.title, version.update_ms, canvas_of(json.loads(content))))
        now_ms = int(services.clock.now() * 1000)
        if problem := await store_agent(database, agent, versions, pulled.moved_hash, now_ms):
            self.report.problems.append(f"{pulled.title}: {problem}")
            return
        pulled.moved_hash = agent.hash
        self.report.agents += 1

    async def _store_sessions(
        self, database: Database, store: Store, services: Services, pulled: PulledAgent, agent: LocalAgent
    ) -> None:
        for number, (id_, stored) in enumerate(pulled.sessions.items(), 1):
            content = self.folder.read(stored.file)
            if content is None or sha256(content).hexdigest() != stored.hash:
                self.report.problems.append(f"{stored.file} was changed or deleted here; pull again to use the session")
                continue
            session = read_session_file(content, stored.file)
            if session.id != id_ or session.agent_id != agent.id:
                self.report.problems.append(f"{stored.file} is the file of another session")
                continue
            file, version_id = _find_version(pulled, agent, session)
            await store_session(database, session, version_id)
            await self._import(store, services, session, self.folder.absolute(file), stored.file)
            self.progress(f"sessions of {pulled.title[:80]}: {number}/{len(pulled.sessions)} moved in")

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
        return load_canvas(file, self.settings, asks_servers=False)


def _find_version(pulled: PulledAgent, agent: LocalAgent, session: RemoteSession) -> tuple[str, str]:
    """Return the file and the id of the version with which a session goes on: its published one, or the draft."""
    for id_, version in pulled.versions.items():
        if version.title and version.title == session.version_title:
            return version.file, id_
    return agent.file, draft_id(agent.id, agent.hash)
