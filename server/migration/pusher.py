"""What differs between a pulled folder and its server, and pushing what was changed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ragflow_lg.adapters.ragflow_api import remote_agents, remote_sessions
from ragflow_lg.base.errors import CompileError, ServiceError, SettingsError
from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.dsl_compiler.comparison import Difference, compare_canvases
from ragflow_lg.server.migration.agent_changes import ADVICE, AgentState, compare_state
from ragflow_lg.server.migration.agent_files import build_agent_file, find_lost_secrets, restore_secrets
from ragflow_lg.server.migration.manifest import PulledAgent
from ragflow_lg.server.migration.puller import LocalAgent, first_problem, local_agents

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ragflow_lg.adapters.ragflow_api.api_client import RagflowApi
    from ragflow_lg.adapters.ragflow_api.remote_agents import RemoteAgent
    from ragflow_lg.component.registry import Registry
    from ragflow_lg.server.migration.folder import PulledFolder
    from ragflow_lg.server.migration.manifest import Manifest


class AgentStatus(NamedTuple):
    """An agent here and there."""

    title: str
    file: str
    id: str
    state: AgentState
    here: LocalAgent | None
    there: RemoteAgent | None
    new_sessions: int = 0
    """Sessions that are new or have changed on the server since the pull."""


class PushResult(NamedTuple):
    """What became of an agent."""

    status: AgentStatus
    action: str
    """``created``, ``updated`` or ``refused``; ``""`` if there was nothing to do."""
    problem: str = ""


async def read_status(
    api: RagflowApi, folder: PulledFolder, manifest: Manifest, problems: list[str]
) -> AsyncIterator[AgentStatus]:
    """Yield the state of every agent here and there. Files that cannot be read become ``problems``.

    Raises:
        ServiceError: if the server fails.
    """
    here = {agent.id or agent.file: agent for agent in local_agents(folder, problems)}
    seen: set[str] = set()
    for row in await remote_agents.list_agents(api):
        try:
            there = await remote_agents.read_agent(api, row)
            status = compare_agent(manifest, here.get(there.id), there)
        except ServiceError as error:
            if error.is_retryable:
                raise
            problems.append(f"{str(row.get('title'))[:80]}: {error}")
            continue
        seen.add(there.id)
        known = manifest.agents.get(there.id)
        yield status._replace(new_sessions=await _count_new_sessions(api, known, there.id) if known else 0)
    for agent in here.values():
        if agent.id not in seen:
            yield compare_agent(manifest, agent, None)


def compare_agent(manifest: Manifest, here: LocalAgent | None, there: RemoteAgent | None) -> AgentStatus:
    """Return the state of one agent, of which one side may be missing.

    Raises:
        ServiceError: if the canvas on the server is too large.
    """
    id_ = there.id if there else here.id if here else ""
    known = manifest.agents.get(id_)
    hash_there = build_agent_file(there).hash if there else ""
    state = compare_state(known.hash if known else "", here.hash if here else "", hash_there)
    title = here.title if here else there.title if there else id_
    return AgentStatus(title, here.file if here else known.file if known else "", id_, state, here, there)


async def _count_new_sessions(api: RagflowApi, known: PulledAgent, agent_id: str) -> int:
    if not known.sessions:
        return 0
    return len(
        [
            id_
            async for id_, update_ms in remote_sessions.list_sessions(api, agent_id)
            if id_ not in known.sessions or known.sessions[id_].update_ms != update_ms
        ]
    )


def describe_difference(status: AgentStatus, catalog: Registry) -> Sequence[Difference] | str:
    """Return what differs from the server's canvas to the one here, or why they cannot be compared."""
    if status.here is None or status.there is None:
        return ()
    theirs: Any = {**build_parts(status.there)}
    try:
        return compare_canvases(theirs, dict(status.here.dsl), catalog)
    except CompileError as error:
        return f"they cannot be compared: {first_problem(error)}"


def build_parts(agent: RemoteAgent) -> dict[str, Any]:
    """Return the canvas of an agent without keys, as in its file."""
    import orjson

    return orjson.loads(build_agent_file(agent).text)["dsl"]


def choose_agents(folder: PulledFolder, names: Sequence[str], problems: list[str]) -> list[LocalAgent]:
    """Return the agents with some titles, ids or files; all of them if none is named.

    Raises:
        SettingsError: if there is no such agent, or several have the same title.
    """
    agents = local_agents(folder, problems)
    chosen: list[LocalAgent] = []
    for name in names:
        plain = name.replace("\\", "/").rpartition("/")[2]
        matches = [
            a for a in agents if name in (a.id, a.title) or a.file.removeprefix("agents/") in (plain, f"{plain}.json")
        ]
        if len(matches) != 1:
            what = "no agent" if not matches else f"{len(matches)} agents"
            raise SettingsError(f"The folder has {what} {name!r}. Name it by its file, as in agents/NAME.json.")
        chosen += matches
    return list({agent.file: agent for agent in chosen}.values()) if names else agents


class Pusher:
    """Pushes agents to the server. With ``is_forced``, what was changed there is overwritten."""

    def __init__(
        self, api: RagflowApi, folder: PulledFolder, manifest: Manifest, catalog: Registry, *, is_forced: bool = False
    ) -> None:
        self._api = api
        self._folder = folder
        self._manifest = manifest
        self._catalog = catalog
        self._is_forced = is_forced

    async def push(self, here: LocalAgent, *, comment: str | None = None, is_dry: bool = False) -> PushResult:
        """Create or update an agent. With a ``comment``, its draft is published under it.

        Raises:
            ServiceError: if the server fails.
        """
        there = await remote_agents.find_agent(self._api, here.id) if here.id else None
        status = compare_agent(self._manifest, here, there)
        if status.state == "same":
            return PushResult(status, "")
        may_push = status.state in ("changed here", "new here") or self._is_forced
        if not may_push:
            return PushResult(status, "refused", f"{status.state}: {ADVICE[status.state]}")
        canvas = restore_secrets(here.dsl, there.dsl if there else None)
        if problem := self._find_problem(here, canvas):
            return PushResult(status, "refused", problem)
        if is_dry:
            return PushResult(status, "would update" if there else "would create")
        result = await self._update(status, canvas) if there else await self._create(status, canvas)
        if comment is not None and not result.problem:
            return result._replace(problem=await self._publish(result.status.id, canvas, comment))
        return result

    def _find_problem(self, here: LocalAgent, canvas: Any) -> str:
        if lost := list(find_lost_secrets(canvas)):
            return f"a key was left out at {lost[0]}, and the server has none there. Set it in RAGFlow's editor first."
        errors = [d for d in check_canvas(dict(here.dsl), self._catalog)[1] if d.severity == "error"]
        if errors and not self._is_forced:
            return (
                f"the canvas has {len(errors)} errors, such as: {errors[0].message} See `ragflow-lg check {here.file}`."
            )
        return ""

    async def _update(self, status: AgentStatus, canvas: Any) -> PushResult:
        await remote_agents.update_agent(self._api, status.id, _fields(status, canvas))
        return await self._remember(status, "updated")

    async def _create(self, status: AgentStatus, canvas: Any) -> PushResult:
        fields = _fields(status, canvas)
        id_ = await remote_agents.create_agent(self._api, fields)
        if not id_:
            rows = await remote_agents.list_agents(self._api)
            matches = [str(row.get("id")) for row in rows if row.get("title") == fields["title"]]
            id_ = matches[0] if len(matches) == 1 else ""
        if not id_:
            return PushResult(status, "created", "its id is unknown: run `ragflow-lg pull` to find it")
        if status.id in self._manifest.agents:
            del self._manifest.agents[status.id]
        return await self._remember(status._replace(id=id_), "created")

    async def _remember(self, status: AgentStatus, action: str) -> PushResult:
        """Store what the server has now, in the manifest and in the file."""
        there = await remote_agents.find_agent(self._api, status.id)
        if there is None:
            return PushResult(status, action, "the server does not show it")
        stored = build_agent_file(there)
        known = self._manifest.agents.get(status.id) or PulledAgent(status.file, there.title, stored.hash)
        known.hash, known.title, known.update_ms = stored.hash, there.title, there.update_ms
        self._manifest.agents[status.id] = known
        self._folder.write(status.file, stored.text.encode())
        self._folder.write_manifest(self._manifest)
        return PushResult(status, action)

    async def _publish(self, agent_id: str, canvas: Any, comment: str) -> str:
        """Publish a draft. RAGFlow's own server publishes by an update, which has no comment."""
        if not await remote_agents.publish_agent(self._api, agent_id, comment):
            there = await remote_agents.find_agent(self._api, agent_id)
            kind = there.canvas_type if there else ""
            await remote_agents.update_agent(self._api, agent_id, {"dsl": canvas, "canvas_type": kind, "release": True})
            return "published without the comment: this server's versions have none" if comment else ""
        return ""


def _fields(status: AgentStatus, canvas: Any) -> dict[str, Any]:
    """Return the fields to send. RAGFlow clears a ``canvas_type`` that is not sent."""
    document: Mapping[str, Any] = status.here.document if status.here else {}
    names = ("description", "avatar", "canvas_type", "canvas_category")
    about = {name: value for name in names if isinstance(value := document.get(name), str)}
    if status.there is not None:
        about.setdefault("canvas_type", status.there.canvas_type)
    return {"title": status.title, "dsl": canvas, **about}
