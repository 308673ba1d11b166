"""Pulling: agents, versions and sessions of a RAGFlow as files. A pull that was killed goes on where it stopped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field

from ragflow_lg.adapters.ragflow_api import remote_agents, remote_sessions
from ragflow_lg.adapters.ragflow_api.api_client import as_map, is_id, read_text
from ragflow_lg.base.errors import CompileError, ServiceError
from ragflow_lg.dsl_compiler.canvas_format import format_canvas
from ragflow_lg.integrations.migration.agent_files import build_agent_file, choose_name, hash_text, hash_without_own
from ragflow_lg.integrations.migration.folder import PulledAgent, PulledSession, PulledVersion, name_of
from ragflow_lg.integrations.migration.thread_import import write_session

if TYPE_CHECKING:
    from ragflow_lg.adapters.ragflow_api.api_client import RagflowApi
    from ragflow_lg.adapters.ragflow_api.remote_agents import RemoteAgent
    from ragflow_lg.integrations.migration.folder import Manifest, PulledFolder

SAVE_EVERY = 20
"""How many agents or sessions are pulled before the manifest is stored again."""


class LocalAgent(NamedTuple):
    """An agent's file in the folder. ``hash`` is that of its canonical form."""

    file: str
    document: Mapping[str, Any]
    hash: str

    @property
    def id(self) -> str:
        """The agent's id on the server, or ``""``."""
        id_ = self.document.get("id")
        return id_ if isinstance(id_, str) and is_id(id_) else ""


class PullReport(Struct):
    """What a pull did."""

    written: int = 0
    """Agents whose file was written."""
    unchanged: int = 0
    sessions: int = 0
    """Sessions whose file was written."""
    kept: list[str] = field(default_factory=list[str])
    """Agents whose file was left alone, each with what to do."""
    problems: list[str] = field(default_factory=list[str])
    blanked: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Where keys were left out, by title."""


def read_local_agent(folder: PulledFolder, file: str) -> LocalAgent | None:
    """Return the agent in a file, or None if there is no such file.

    Raises:
        SettingsError: if the file cannot be read.
        CompileError: if it is no JSON object.
    """
    content = folder.read(file)
    if content is None:
        return None
    text = format_canvas(content)
    return LocalAgent(file, as_map(json.loads(text.encode("utf-8", "replace"))), hash_text(text))


def first_problem(error: CompileError) -> str:
    """Return the first problem of a canvas as one line."""
    lines = str(error).strip().splitlines()
    return lines[1 if len(lines) > 1 else 0].strip()


class Puller(Struct):
    """Pulls into a folder. With ``is_forced``, files that were changed here are replaced."""

    api: RagflowApi
    folder: PulledFolder
    manifest: Manifest
    progress: Callable[[str], None]
    is_forced: bool = False
    report: PullReport = field(default_factory=PullReport)
    here: dict[str, LocalAgent] = field(default_factory=dict[str, LocalAgent])
    """The agents in the folder by id, as they were before the pull."""

    async def pull(self, *, with_sessions: bool) -> PullReport:
        """Pull all agents and, on request, their sessions. An agent that fails becomes a problem.

        Raises:
            ServiceError: if the server cannot be reached or has too many agents.
            SettingsError: if the folder cannot be written.
        """
        self._read_folder()
        rows = await remote_agents.list_agents(self.api)
        self.folder.write_manifest(self.manifest)  # so that the folder is known, however early the pull is killed
        try:
            for number, row in enumerate(rows, 1):
                title = read_text(row, "title", "id", max_chars=80)
                self.progress(f"agents {number}/{len(rows)}: {title}")
                try:
                    agent = await remote_agents.read_agent(self.api, row)
                    await self._pull_agent(agent)
                    if with_sessions:
                        await self._pull_sessions(agent)
                except ServiceError as error:
                    if error.is_retryable:
                        raise
                    self.report.problems.append(f"{title}: {error}")
                if number % SAVE_EVERY == 0:
                    self.folder.write_manifest(self.manifest)
        finally:
            self.folder.write_manifest(self.manifest)
        return self.report

    def _read_folder(self) -> None:
        """Read the agents in the folder. Files that cannot be read become problems."""
        for file in self.folder.agent_files():
            try:
                agent = read_local_agent(self.folder, file)
            except CompileError as error:
                self.report.problems.append(f"{file} is not a canvas: {first_problem(error)}")
            else:
                if agent is not None and agent.id:
                    self.here[agent.id] = agent

    async def _pull_agent(self, agent: RemoteAgent) -> None:
        there = build_agent_file(agent)
        known, here = self.manifest.agents.get(agent.id), self.here.get(agent.id)
        is_same = here is not None and (here.hash == there.hash or hash_without_own(here.document) == there.hash)
        is_changed_here = here is not None and not is_same and here.hash != (known.hash if known else "")
        if there.blanked:
            self.report.blanked[agent.title] = there.blanked
        file = here.file if here else known.file if known else self._choose_file(agent)
        pulled = known or PulledAgent(file, agent.title, there.hash)
        pulled.file, pulled.title = file, agent.title
        if is_changed_here and not self.is_forced:
            self.report.kept.append(f"{agent.title} ({file}) was changed here: `ragflow-lg pull --force` replaces it")
        else:
            if is_same:
                self.report.unchanged += 1
            else:
                self.folder.write(file, there.text.encode())
                self.report.written += 1
            pulled.hash, pulled.update_ms = there.hash, agent.update_ms
        self.manifest.agents[agent.id] = pulled
        await self._pull_versions(agent, pulled)

    async def _pull_versions(self, agent: RemoteAgent, pulled: PulledAgent) -> None:
        for version in await remote_agents.list_released(self.api, agent.id):
            content = build_agent_file(agent, dsl=version.dsl)
            file = f"versions/{pulled.name}/{version.id}.json"
            if self._hash_of(file) != content.hash:
                self.folder.write(file, content.text.encode())
            pulled.versions[version.id] = PulledVersion(file, version.title, content.hash, version.update_ms)

    async def _pull_sessions(self, agent: RemoteAgent) -> None:
        pulled = self.manifest.agents[agent.id]
        wanted: list[tuple[str, int]] = []
        async for id_, update_ms in remote_sessions.list_sessions(self.api, agent.id):
            known = pulled.sessions.get(id_)
            if known is None or known.update_ms != update_ms or not self._is_stored(known):
                wanted.append((id_, update_ms))
        for start in range(0, len(wanted), SAVE_EVERY):
            batch = wanted[start : start + SAVE_EVERY]
            await asyncio.gather(*(self._pull_session(agent, pulled, *each) for each in batch))
            self.progress(f"sessions of {agent.title[:80]}: {min(start + SAVE_EVERY, len(wanted))}/{len(wanted)}")
            self.folder.write_manifest(self.manifest)

    async def _pull_session(self, agent: RemoteAgent, pulled: PulledAgent, id_: str, update_ms: int) -> None:
        try:
            session = await remote_sessions.read_session(self.api, agent.id, id_)
        except ServiceError as error:
            if error.is_retryable:
                raise
            self.report.problems.append(f"session {id_} of {agent.title}: {error}")
            return
        if session is None:
            return
        content = write_session(session)
        file = f"sessions/{pulled.name}/{id_}.json"
        self.folder.write(file, content)
        pulled.sessions[id_] = PulledSession(file, sha256(content).hexdigest(), update_ms)
        self.report.sessions += 1

    def _is_stored(self, session: PulledSession) -> bool:
        content = self.folder.read(session.file)
        return content is not None and sha256(content).hexdigest() == session.hash

    def _hash_of(self, file: str) -> str:
        try:
            agent = read_local_agent(self.folder, file)
        except CompileError:
            return ""
        return agent.hash if agent else ""

    def _choose_file(self, agent: RemoteAgent) -> str:
        files = [*(pulled.file for pulled in self.manifest.agents.values()), *self.folder.agent_files()]
        taken = {name_of(file).lower() for file in files}
        return f"agents/{choose_name(agent.title, agent.id, taken)}.json"
