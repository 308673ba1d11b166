"""From a running server to a conversation that goes on here, by the commands."""

import asyncio
import json
import os
import re
import subprocess
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.integrations.knowledge.embedded_knowledge import EmbeddedKnowledge
from ragflow_lg.integrations.knowledge.knowledge_file import KnowledgeFile, read_chunks
from ragflow_lg.server.database.key_repository import KeyRepository
from tests.fakes.canvas import canvas, node
from tests.fakes.embedded import OneEmbedder, fill
from tests.fakes.services import Reply
from tests.harness.pages import ROOT
from tests.integrations.migration.commands import command, open_here, pull
from tests.server.http.app_server import ECHO, FORM, MODEL, AppServer, asks, start_app

pytestmark = pytest.mark.slow

MOVED = Path("moved")


async def populate(server: AppServer) -> dict[str, list[str]]:
    """Create five agents with four sessions each. Return the sessions by title."""
    sessions: dict[str, list[str]] = {}
    canvases = {
        "Echo": ECHO,
        "Second echo": ECHO,
        "No model": asks("{sys.query}", llm_id=""),
        "Model": MODEL,
        "Form": FORM,
    }
    for title, dsl in canvases.items():
        agent = await server.agent(dsl, title)
        for number in range(4):
            session = await server.session(agent, user_id="anna")
            await server.ask(agent, f"question {number}", session_id=session)
            sessions.setdefault(title, []).append(session)
    return sessions


async def test_agents_and_sessions_go_on_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with start_app(tmp_path, [Reply(chunks=["Hello."], repeat=True)]) as server:
        sessions = await populate(server)
        monkeypatch.setenv("THEIR_KEY", server.key)
        done = await pull(server.url, "--sessions")
        assert done.returncode == 0, done.stderr
        assert "5 agents written" in done.stdout
        assert "\ndefault_model = " in (MOVED / "TO_SET.md").read_text("utf-8")
        assert "the same messages as there: 20; waiting for an answer: 4" in done.stdout
        agents = {row["title"]: row["id"] for row in (await server.client.get("/agents")).json()["data"]["canvas"]}
        before = (await server.client.get(f"/agents/{agents['Echo']}/sessions/{sessions['Echo'][0]}")).json()["data"]
    monkeypatch.chdir(MOVED)
    async with AsyncExitStack() as stack:
        client = await open_here(stack)
        after = (await client.get(f"/agents/{agents['Echo']}/sessions/{sessions['Echo'][0]}")).json()["data"]
        said = [[(m["role"], m["content"]) for m in session["message"]] for session in (before, after)]
        assert said[0] == said[1]
        assert after["dsl"]["globals"]["sys.conversation_turns"] == 1
        body: dict[str, Any] = {"agent_id": agents["Echo"], "query": "and now?", "session_id": sessions["Echo"][0]}
        answer = (await client.post("/agents/chat/completions", json=body)).json()
        assert answer["data"]["data"]["content"] == "You said and now?"
        shown = (await client.get(f"/agents/{agents['Echo']}/sessions/{sessions['Echo'][0]}")).json()["data"]
        assert len(shown["message"]) == len(before["message"]) + 2
        assert shown["dsl"]["globals"]["sys.conversation_turns"] == 2
        body = {"agent_id": agents["Form"], "inputs": {"size": {"value": 42}}, "session_id": sessions["Form"][1]}
        answer = (await client.post("/agents/chat/completions", json=body)).json()
        assert answer["data"]["data"]["content"] == "Size 42"
    run = await command("run", "agents/echo.json", "third", "--session", sessions["Echo"][0], "--events", "json")
    frames = [json.loads(line) for line in run.stdout.splitlines()]
    assert "You said third" in "".join(f["data"].get("content", "") for f in frames if f["event"] == "message")
    assert frames[-1]["session_id"] == sessions["Echo"][0]
    resumed = await command("resume", sessions["Form"][2], "--input", "size=7")
    assert "Size 7" in resumed.stdout


async def test_a_file_goes_back_by_the_command_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "from_ragflow.md").read_text("utf-8")
    (shown,) = re.findall(r"^python3 -c .*?-d @-$", page, re.MULTILINE | re.DOTALL)
    async with start_app(tmp_path) as server:
        agent = await server.agent(ECHO, "Customer service")
        monkeypatch.setenv("THEIR_KEY", server.key)
        await pull(server.url)
        file = MOVED / "agents" / "customer_service.json"
        own = {**json.loads(file.read_text("utf-8").replace("You said", "You wrote")), "compat": "ragflow"}
        file.write_text(json.dumps(own), "utf-8")
        variables = {**os.environ, "RAGFLOW": server.url, "RAGFLOW_KEY": server.key, "AGENT": own["id"]}
        sent = await asyncio.to_thread(
            subprocess.run, ["sh", "-c", shown], cwd=MOVED, env=variables, capture_output=True, text=True
        )
        assert json.loads(sent.stdout)["code"] == 0, sent.stderr
        assert (await server.get(f"/agents/{agent}"))["data"]["dsl"] == own["dsl"]


async def test_a_session_that_went_on_there_is_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start_app(tmp_path) as server:
        agent = await server.agent(ECHO, "Echo")
        session = await server.session(agent)
        await server.ask(agent, "one", session_id=session)
        monkeypatch.setenv("THEIR_KEY", server.key)
        await pull(server.url, "--sessions")
        await server.ask(agent, "two, over there", session_id=session)
        again = await command("pull", "moved", "--sessions")
        assert "the same messages as there: 1" in again.stdout, again.stderr
    monkeypatch.chdir(MOVED)
    async with AsyncExitStack() as stack:
        client = await open_here(stack)
        shown = (await client.get(f"/agents/{agent}/sessions/{session}")).json()["data"]
        said = [message["content"] for message in shown["message"]]
        assert said[-2:] == ["two, over there", "You said two, over there"]
        assert shown["dsl"]["globals"]["sys.conversation_turns"] == 2


async def test_a_session_that_went_on_here_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with start_app(tmp_path) as server:
        agent = await server.agent(ECHO, "Echo")
        session = await server.session(agent)
        await server.ask(agent, "one", session_id=session)
        monkeypatch.setenv("THEIR_KEY", server.key)
        await pull(server.url, "--sessions")
        store = ("--settings", "moved/ragflow-lg.toml", "--checkpoint", "sqlite:///moved/ragflow-lg.db")
        await command("run", "moved/agents/echo.json", "two", "--session", session, *store)
        again = await command("pull", "moved", "--sessions")
        assert "the same messages as there: 1" in again.stdout, again.stderr
        await server.ask(agent, "three, over there", session_id=session)
        apart = await command("pull", "moved", "--sessions")
        assert apart.returncode == 1
        assert "message 4 differs" in apart.stderr


async def test_datasets_are_linked_or_copied_with_their_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    knowledge = EmbeddedKnowledge(tmp_path / "theirs.db", OneEmbedder())
    fill(knowledge, "colours", {"blue.md": ["Blue is calm."], "red.md": ["Red is warm."]}, "bge-m3@SILICONFLOW")
    fill(knowledge, "sizes", {"sizes.md": [f"Size {number}" for number in range(130)]}, "bge-m3@SILICONFLOW")
    params = {"dataset_ids": ["colours"], "query": "sys.query"}
    nodes = {"r": node("Retrieval", params, ["m"]), "m": node("Message", {"content": ["{r@formalized_content}"]})}
    async with start_app(tmp_path, knowledge=knowledge) as server:
        await server.agent(canvas(nodes), "Colours")
        monkeypatch.setenv("THEIR_KEY", server.key)
        await pull(server.url)
        settings = ("--settings", "moved/ragflow-lg.toml")
        linked = await command("run", "moved/agents/colours.json", "What is calm?", *settings)
        assert "Blue is calm." in linked.stdout, linked
        copied = await command("pull", "moved", "--copy-datasets")
        assert copied.returncode == 0, copied.stderr
    own = KnowledgeFile(MOVED / "ragflow-lg-knowledge.db")
    for name in ("colours", "sizes"):
        assert stored_vectors(own, name) == stored_vectors(knowledge.file, name)
    assert len(stored_vectors(own, "sizes")) == 130


def stored_vectors(database: KnowledgeFile, name: str) -> list[tuple[str, bytes]]:
    """Return the chunks of a dataset with their vectors."""
    with database.reading() as connection:
        chunks = read_chunks(connection, "datasets.name = ? ORDER BY documents.name, chunks.number", name)
        return [(chunk.content, chunk.vector) for chunk in chunks]


@pytest.mark.parametrize("compat", ["0.24", "0.25.1", "1.0"])
async def test_a_server_that_answers_as_other_versions_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compat: str
) -> None:
    async with start_app(tmp_path) as server:
        agent = await server.agent(FORM, "Form", release=True)
        session = await server.session(agent)
        await server.ask(agent, "hello", session_id=session)
        key = await KeyRepository(server.app_state.database).create("tenant", 1, compat=compat)
        monkeypatch.setenv("THEIR_KEY", key)
        done = await pull(server.url, "--sessions")
        assert done.returncode == 0, done.stderr
        assert "the same messages as there: 1; waiting for an answer: 1" in done.stdout
