"""Asking a server and a canvas the same questions."""

import asyncio
import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.integrations.migration import two_sides
from ragflow_lg.integrations.migration.two_sides import There, Turn
from tests.fakes.recorded_ragflow import RecordedRagflow
from tests.fakes.services import Reply
from tests.harness.rows import each_row
from tests.integrations.migration.commands import command
from tests.server.cli.command import Completed, end, start
from tests.server.http.app_server import ECHO, FORM, MODEL, AppServer, start_app

CANVAS = Path("helper.json")
OTHER = json.loads(json.dumps(ECHO).replace("You said", "<b>You</b> have said"))


async def compare(url: str, dsl: dict[str, Any], *arguments: str | Path, title: Any = "Helper") -> Completed:
    """Ask a server and a canvas with the same title."""
    CANVAS.write_text(json.dumps({"title": title, "dsl": dsl}))
    return await command("compare", CANVAS, "--with", url, "--key-env", "THEIR_KEY", "--allow-private", *arguments)


async def sessions_of(server: AppServer, agent: str) -> list[str]:
    return [row["id"] for row in (await server.get(f"/agents/{agent}/sessions"))["data"]]


def rows(text: str, label: str) -> list[str]:
    """Return the rows of a report that have a label, with single blanks."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return [line for line in lines if line.startswith((f"= {label}", f"≠ {label}"))]


@pytest.mark.parametrize("wire", ["0.27", "1.0"])
async def test_answers_and_paths_stand_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wire: str) -> None:
    async with start_app(tmp_path) as server:
        monkeypatch.setenv("THEIR_KEY", await server.new_key(compat=wire))
        agent = await server.agent(ECHO)
        Path("lines.txt").write_text("two\n\nthree\n")
        same = await compare(server.url, ECHO, "one", "--questions", "lines.txt")
        assert same.returncode == 0, same
        assert rows(same.stdout, "answer") == [f"= answer You said {n} You said {n}" for n in ("one", "two", "three")]
        assert rows(same.stdout, "path") == ["= path begin → Message:0 begin → Message:0"] * 3
        assert "3 questions: 3 same" in same.stdout
        other = await compare(server.url, OTHER, "one")
        assert other.returncode == 1
        assert rows(other.stdout, "answer") == ["≠ answer You said one <b>You</b> have said one"]
        assert "1 question: 0 same; different: answer 1" in other.stdout
        page = await compare(server.url, OTHER, "one", "-o", "html")
        assert "<td><mark>You </mark>said one</td>" in page.stdout
        assert "<td><mark>&lt;b&gt;You&lt;/b&gt; have </mark>said one</td>" in page.stdout
        assert re.findall(r"src=|href=|url\(|https?://(?!127\.0\.0\.1)", page.stdout) == []
        assert await sessions_of(server, agent) == []


async def test_the_questions_of_a_session_are_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with start_app(tmp_path, [Reply(chunks=["Hello."], repeat=True)]) as server:
        monkeypatch.setenv("THEIR_KEY", server.key)
        agent = await server.agent(ECHO)
        session = await server.session(agent)
        for question in ("one", "two"):
            await server.ask(agent, question, session_id=session)
        done = await compare(server.url, ECHO, "--session", session)
        assert rows(done.stdout, "answer") == [f"= answer You said {n} You said {n}" for n in ("one", "two")], done
        assert await sessions_of(server, agent) == [session]
        unknown = await compare(server.url, ECHO, "--session", "0" * 32)
        assert unknown.returncode == 2
        assert "no session" in unknown.stderr


@pytest.mark.parametrize("wire", ["0.27", "1.0"])
async def test_a_form_is_answered_by_what_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wire: str) -> None:
    async with start_app(tmp_path) as server:
        monkeypatch.setenv("THEIR_KEY", await server.new_key(compat=wire))
        agent = await server.agent(FORM)
        done = await compare(server.url, FORM, "hello", "42", "--together")
        assert done.returncode == 0, done
        assert rows(done.stdout, "form") == ["= form size size"]
        assert rows(done.stdout, "answer") == ["= answer Size 42 Size 42"]
        wrong = await compare(server.url, FORM, "hello", "big", "never", "--together")
        assert rows(wrong.stdout, "error")[-1].count("It was not asked") == 2, wrong
        assert "3 questions: 1 same; different: error 1" in wrong.stdout
        assert await sessions_of(server, agent) == []
        session = await server.session(agent)
        await server.ask(agent, "hello", session_id=session)
        await server.ask(agent, "", session_id=session, inputs={"size": {"value": 42}})
        again = await compare(server.url, FORM, "--session", session)
        assert rows(again.stdout, "answer") == ["= answer Size 42 Size 42"], again
        assert await sessions_of(server, agent) == [session]


@pytest.mark.parametrize("wire", ["0.27", "1.0"])
async def test_a_failed_turn_and_its_path_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wire: str) -> None:
    async with start_app(tmp_path, [Reply(error="no such model", repeat=True)]) as server:
        monkeypatch.setenv("THEIR_KEY", await server.new_key(compat=wire))
        agent = await server.agent(MODEL)
        done = await compare(server.url, ECHO, "one")
        assert done.returncode == 1
        (error,) = rows(done.stdout, "error")
        assert error.startswith("≠ error"), done
        assert "no such model" in " ".join(done.stdout.split())
        assert await sessions_of(server, agent) == []


async def test_the_agent_is_found_or_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with start_app(tmp_path) as server:
        monkeypatch.setenv("THEIR_KEY", server.key)
        agent = await server.agent(ECHO)
        unknown = await compare(server.url, ECHO, "one", title="Nobody")
        assert unknown.returncode == 2
        assert "No agents have the title 'Nobody' or 'helper'. Name one with --agent ID: Helper (" in unknown.stderr
        named = await compare(server.url, ECHO, "one", "--agent", agent, title="Nobody")
        assert named.returncode == 0
        await server.client.patch(f"/agents/{agent}", json={"title": "helper"})
        for title in ("Nobody", {"en": "Helper"}):  # that of a template has languages
            by_file = await compare(server.url, ECHO, "one", title=title)
            assert by_file.returncode == 0, by_file
        nothing = await compare(server.url, ECHO)
        assert "Name questions" in nothing.stderr


async def test_a_server_in_go_is_asked_and_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    async with RecordedRagflow("1.0").running() as server:
        assert isinstance(server, RecordedRagflow)
        painter = server.answers[f"GET /api/v1/agents/{'a1' * 16}"]["body"]["data"]["dsl"]
        done = await compare(server.url, painter, "a house", title="Painter")
        assert done.returncode == 0, done
        assert rows(done.stdout, "path") == ["= path begin → StringTransform:Wish begin → StringTransform:Wish"]
        assert rows(done.stdout, "form") == ["= form colour colour"]
        (deleted,) = [request for request in server.received if request.method == "DELETE"]
        assert deleted.path.endswith(f"?ids={'5c' * 16}")
        assert json.loads(deleted.body) == {"ids": ["5c" * 16]}
        assert done.stderr.count("could not be deleted") == 0
        server.set(f"/api/v1/agents/{'a1' * 16}/sessions/{'5c' * 16}", {"id": "5c" * 16})
        kept = await compare(server.url, painter, "a house", title="Painter")
        assert f"These sessions could not be deleted over there: {'5c' * 16}." in kept.stderr
        monkeypatch.setattr(two_sides, "CLEAN_UP_S", 0.1)
        server.answers[f"DELETE /api/v1/agents/{'a1' * 16}/sessions"] |= {"delay_ms": 60_000}
        slow = await compare(server.url, painter, "a house", title="Painter")
        assert "These sessions could not be deleted over there" in slow.stderr


async def test_a_failure_over_there_is_shown_and_cleaned_up() -> None:
    async with RecordedRagflow("1.0").running() as server:
        assert isinstance(server, RecordedRagflow)
        busy = {"body": {"code": 103, "message": "This agent session is already running.", "data": None}}
        server.answers["POST /api/v1/agents/chat/completions"] = busy
        done = await compare(server.url, ECHO, "a house", title="Painter")
        assert done.returncode == 1
        assert "is already running" in " ".join(done.stdout.split())
        assert [request.method for request in server.received][-3:] == ["POST", "DELETE", "GET"]  # cancel, delete, look
        server.answers[f"POST /api/v1/agents/{'a1' * 16}/sessions"] = {"body": {"code": 102, "message": "No canvas."}}
        refused = await compare(server.url, ECHO, "a house", title="Painter")
        assert (refused.returncode, refused.stdout, "No canvas." in refused.stderr) == (2, "", True)


@pytest.mark.slow
async def test_ctrl_c_leaves_no_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with start_app(tmp_path, [Reply(hangs=True, repeat=True)]) as server:
        monkeypatch.setenv("THEIR_KEY", server.key)
        agent = await server.agent(MODEL)
        CANVAS.write_text(json.dumps({"title": "Helper", "dsl": ECHO}))
        options = ("--with", server.url, "--key-env", "THEIR_KEY", "--allow-private")
        process = start("compare", CANVAS, "one", *options)
        while not server.model.requests:
            await asyncio.sleep(0.05)
        assert len(await sessions_of(server, agent)) == 1
        code, errors = await asyncio.to_thread(end, process, signal.SIGINT)
        assert (code, await sessions_of(server, agent)) == (130, []), errors


def message(text: str, **data: Any) -> dict[str, Any]:
    return {"event": "message", "data": {"content": text, **data}}


CHUNK = {"id": "c1", "content": "Blue is calm.", "document_name": "colours.md"}
OTHER_BRANCH = {"event": "node_finished", "data": {"component_id": "n", "error": ""}}
ENDED = {"event": "workflow_finished", "data": {"outputs": "Sorry."}}
FAILED = {"event": "node_finished", "data": {"component_id": "m", "error": "no key"}}


@each_row(
    ("frames", "text", "sources", "error"),
    [
        (
            [message("", start_to_think=True), message("hm"), message("", end_to_think=True), message("Hi"), ENDED],
            "Hi",
            [],
            "",
        ),
        ([message("Hi", reference={"chunks": [CHUNK], "doc_aggs": [], "total": 1}), ENDED], "Hi", ["colours.md"], ""),
        ([{"event": "message_end", "data": {"reference": {"chunks": {"7": CHUNK}}}}, ENDED], "", ["colours.md"], ""),
        ([FAILED], "", [], "no key"),
        ([FAILED, OTHER_BRANCH, message("a")], "a", [], "no key"),
        ([message("a"), OTHER_BRANCH], "a", [], "The stream ended early."),
        ([FAILED, message("Sorry."), ENDED], "Sorry.", [], ""),
        ([message("a"), {"code": 500, "message": "broken", "data": False}], "a", [], "broken"),
        ([{"event": "cancelled", "data": {"message": "Agent run was cancelled."}}], "", [], "Agent run was cancelled."),
        ([{"event": 7}, {"data": 7}, {"event": "user_inputs", "data": {"inputs": [1]}}, message("x")], "x", [], ""),
    ],
)
async def test_frames_of_every_generation_are_read(frames: Any, text: str, sources: list[str], error: str) -> None:
    class Api:
        async def stream(self, path: str, body: Any) -> Any:
            return frames

    api: Any = Api()
    turn = Turn()
    await There(api, "a1").ask("s1", turn, "q", {})
    assert (turn.said.text, turn.sources, turn.error) == (text, sources, error)
