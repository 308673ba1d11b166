"""The same agents and sessions in the forms of three generations of RAGFlow's API."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.fakes.recorded_ragflow import RecordedRagflow

START_MS = 1_787_000_000_000


class Turn(NamedTuple):
    """A question with its answer, ``""`` if it has none, and the text of a cited chunk."""

    question: str
    answer: str
    cited: str = ""


class TheirAgent(NamedTuple):
    """An agent with a published version of the same canvas, and its sessions."""

    id: str
    title: str
    dsl: dict[str, Any]
    sessions: dict[str, list[Turn]]

    @property
    def version(self) -> str:
        """The id of its version."""
        return f"f{self.id[1:]}"


def fill(server: RecordedRagflow, generation: str, agents: Sequence[TheirAgent]) -> None:
    """Make a server have these agents and no others."""
    is_old, is_go = generation == "0.24", generation == "1.0"
    server.answers = {name: answer for name, answer in server.answers.items() if "/agents" not in name}
    rows: list[dict[str, Any]] = []
    for agent in agents:
        path = f"/api/v1/agents/{agent.id}"
        row = {"id": agent.id, "title": agent.title, "canvas_category": "agent_canvas", "update_time": START_MS}
        rows.append(row | {"dsl": agent.dsl} if is_old else row)
        server.set(path, row | {"dsl": agent.dsl})
        if not is_old:
            version = {"id": agent.version, "title": "first", "release": True, "update_time": START_MS}
            full = version | {"dsl": agent.dsl}
            server.set(f"{path}/versions", [full if is_go else version])
            server.set(f"{path}/versions/{agent.version}", full)
        sessions = [_session(agent, id_, generation) for id_ in agent.sessions]
        server.set(f"{path}/sessions", sessions)
        for session in sessions if not is_old else ():
            server.set(f"{path}/sessions/{session['id']}", session)
    server.set("/api/v1/agents", rows if is_old else {"canvas": rows, "total": len(rows)})


def _session(agent: TheirAgent, id_: str, generation: str) -> dict[str, Any]:
    is_old, is_go = generation == "0.24", generation == "1.0"
    messages: list[dict[str, Any]] = [{"role": "assistant", "content": "Hi!"}]
    references: list[dict[str, Any]] = []
    turns = agent.sessions[id_]
    for turn in turns:
        chunks = [{"id": "c1", "content": turn.cited, "document_name": "a.md"}] if turn.cited else []
        documents = [{"doc_name": "a.md", "doc_id": "d1", "count": 1}] if turn.cited else []
        by_name: Any = {"a.md": documents[0]} if turn.cited else {}
        messages.append({"role": "user", "content": turn.question})
        if turn.answer:
            messages.append({"role": "assistant", "content": turn.answer})
            messages[-1] |= {"reference": chunks} if is_old else {}
        if is_go:
            references.append({"chunks": chunks, "doc_aggs": documents, "total": len(chunks)})
        elif turn.answer:
            references.append({"chunks": {"0": chunks[0]} if chunks else {}, "doc_aggs": by_name})
    history = [[role, text] for turn in turns for role, text in (("user", turn[0]), ("assistant", turn[1])) if text]
    forms = [name for name in agent.dsl["components"] if name.startswith("UserFillUp")]
    path = forms[:1] if not turns[-1].answer else ["begin"]
    row: dict[str, Any] = {
        "id": id_,
        "user_id": "anna",
        "source": "agent",
        "create_time": START_MS,
        "update_time": START_MS + 1,
    }
    row["dsl"] = {**agent.dsl, "history": history, "globals": {"env.city": "Oslo"}, "path": [] if is_go else path}
    if is_old:
        return row | {"agent_id": agent.id, "messages": messages}
    return row | {"dialog_id": agent.id, "message": messages, "reference": references, "version_title": "first"}
