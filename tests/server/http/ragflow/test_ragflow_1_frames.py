"""What clients of RAGFlow 1.0 receive in a turn. ``docs/ragflow_1.md`` names the tests in its rows."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import CANCELLED_TEXT
from ragflow_lg.runs.wire.wire_events import Envelope, Message, MessageEnd, UserInputs, WireEvent, WorkflowFinished
from ragflow_lg.server.http.ragflow.ragflow_1_frames import AnswerCollector1, FrameBuilder1
from ragflow_lg.server.http.shared.ragflow_1 import CANCELLED
from tests.fakes.knowledge import FakeKnowledge
from tests.fakes.services import Reply
from tests.server.http.app_server import CITING, ECHO, FORM, MODEL, AppServer, canvas, frames, start_app
from tests.server.waiting import wait_while

COMPAT = "X-RAGFlow-Compat"
KEYS = ["created_at", "data", "event", "message_id", "session_id", "task_id"]
TWO = canvas(
    ("begin", "Begin", {}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["You said {sys.query}."]}, ["StringTransform:0"]),
    ("StringTransform:0", "StringTransform", {"method": "merge", "script": "{sys.query}!"}, ["Message:1"]),
    ("Message:1", "Message", {"content": [" I say {StringTransform:0@result}"]}, []),
)
TALKING = canvas(
    ("begin", "Begin", {}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["Welcome."]}, ["UserFillUp:0"]),
    (
        "UserFillUp:0",
        "UserFillUp",
        {"enable_tips": True, "tips": "Which size?", "inputs": {"size": {"name": "Size", "type": "integer"}}},
        ["Message:1"],
    ),
    ("Message:1", "Message", {"content": ["Size {UserFillUp:0@size}"]}, []),
)


@pytest.fixture
def new(server: AppServer) -> AppServer:
    """Return the server with a client that asks for the responses of 1.0."""
    server.client.headers[COMPAT] = "1.0"
    return server


def events(received: Sequence[Any]) -> list[str]:
    return [frame.get("event", "error") for frame in received]


async def test_the_frames_of_a_turn(new: AppServer) -> None:
    received = await new.stream(await new.agent(TWO), "hi")
    names = events(received)
    assert names[0] == "workflow_started"
    assert names[-2:] == ["message_end", "workflow_finished"]
    assert names.count("message_end") == 1
    assert {tuple(frame) for frame in received} == {tuple(KEYS)}
    assert {type(frame["created_at"]) for frame in received} == {int}
    assert {(frame["task_id"], frame["message_id"]) for frame in received} == {
        (received[0]["session_id"], received[0]["message_id"])
    }
    assert received[0]["data"] == {"inputs": "hi"}
    nodes = [frame["data"] for frame in received if frame["event"].startswith("node_")]
    assert {(node["component_name"], type(node["created_at"])) for node in nodes} == {
        (name, float) for name in ("Begin", "Message", "StringTransform")
    }
    starts = [frame["data"] for frame in received if frame["event"] == "node_started"]
    assert {str(start["inputs"]) for start in starts} == {"{}"}
    (merged,) = [node for node in nodes if node["component_id"] == "StringTransform:0" and "outputs" in node]
    assert merged["outputs"] == {"result": "hi!"}
    finished = received[-1]["data"]
    assert (finished["inputs"], finished["outputs"]) == ({"query": "hi"}, "You said hi. I say hi!")
    assert list(finished["usage"]) == ["prompt_tokens", "completion_tokens", "total_tokens", "calls"]


async def test_a_turn_that_waits(new: AppServer) -> None:
    agent_id = await new.agent(TALKING)
    received = await new.stream(agent_id, "hi")
    assert events(received)[-3:] == ["message_end", "node_started", "waiting_for_user"]
    assert (received[-2]["data"]["component_id"], received[-2]["data"]["component_name"]) == (
        "UserFillUp:0",
        "UserFillUp",
    )
    form = received[-1]["data"]
    assert (form["cpn_id"], form["tips"], list(form["inputs"])) == ("UserFillUp:0", "Which size?", ["size"])
    session, answer = received[0]["session_id"], {"size": {"value": 4}}
    resumed = await new.stream(agent_id, "", session_id=session, inputs=answer)
    assert "workflow_started" not in events(resumed)
    finished = resumed[-1]["data"]
    assert (finished["inputs"], finished["outputs"]) == ({"query": answer}, "Size 4")
    whole = (await new.ask(agent_id, "hi"))["data"]
    assert (whole["event"], whole["data"]["cpn_id"], whole["data"]["content"]) == (
        "waiting_for_user",
        "UserFillUp:0",
        "Welcome.",
    )


async def test_sources_are_lists(tmp_path: Path) -> None:
    replies = [Reply(chunks=["Rice needs water [ID:61]."], repeat=True)]
    async with start_app(tmp_path, replies, knowledge=FakeKnowledge()) as server:
        server.client.headers[COMPAT] = "1.0"
        agent_id = await server.agent(CITING)
        received = await server.stream(agent_id, "rice")
        (reference,) = [frame["data"]["reference"] for frame in received if frame["event"] == "message_end"]
        assert list(reference) == ["chunks", "doc_aggs", "total"]
        documents = [chunk["document_name"] for chunk in reference["chunks"]]
        assert len(documents) == reference["total"]
        assert "61" in [chunk["citation_id"] for chunk in reference["chunks"]]
        assert {each["doc_name"] for each in reference["doc_aggs"]} == {*documents} == {"guide.pdf", "tea.md"}
        whole = (await server.ask(agent_id, "rice"))["data"]
        assert whole["data"]["reference"] == reference
        shown = (await server.get(f"/agents/{agent_id}/sessions/{whole['session_id']}"))["data"]
        assert shown["reference"] == [reference]
        body = {"agent_id": agent_id, "openai-compatible": True, "messages": [{"role": "user", "content": "rice"}]}
        (choice,) = (await server.post("/agents/chat/completions", body))["choices"]
        assert choice["message"]["reference"] == reference


async def test_a_turn_that_fails(new: AppServer) -> None:
    new.model.replies += [Reply(error="no model", repeat=True)]
    agent_id = await new.agent(MODEL)
    received = await new.stream(agent_id)
    error = received[-1]
    assert events(received)[-2:] == ["node_finished", "error"]
    assert list(error) == ["code", "message", "data", "task_id", "session_id"]
    assert (error["code"], error["data"], error["session_id"]) == (500, False, received[0]["session_id"])
    assert "no model" in error["message"]
    whole = await new.ask(agent_id)
    assert (whole["code"], "no model" in whole["message"]) == (500, True)


async def test_a_turn_that_is_cancelled(new: AppServer) -> None:
    new.model.replies += [*[Reply(chunks=["Let me"], hangs=True)] * 2, Reply(chunks=[], hangs=True)]
    agent_id = await new.agent(MODEL)
    messages = [{"role": "user", "content": "hi"}]
    for body in ({"stream": True}, {}, {"openai-compatible": True, "messages": messages, "stream": True}):
        new.model.is_hanging = False
        session = await new.session(agent_id)
        sent = {"agent_id": agent_id, "query": "hi", "session_id": session, **body}
        asked = asyncio.create_task(new.client.post("/agents/chat/completions", json=sent))
        await wait_while(lambda: not new.model.is_hanging)
        assert (await new.post(f"/tasks/{session}/cancel"))["data"] is True
        answer = await asked
        stored = (await new.get(f"/agents/{agent_id}/sessions/{session}"))["data"]["message"][-1]
        assert stored["content"] == ("" if "messages" in body else "Let me")
        if "messages" in body:
            assert '"finish_reason":"cancelled"' in answer.text
            assert f'"cancelled":{{"message":"{CANCELLED}"}}' in answer.text
        elif body:
            last = frames(answer.text)[-1]
            assert (last["event"], last["data"]) == ("cancelled", {"message": CANCELLED})
        else:
            data = answer.json()["data"]
            assert (data["event"], data["data"]["content"]) == ("cancelled", "Let me")


async def test_a_turn_without_streaming(new: AppServer) -> None:
    new.model.replies += [Reply(chunks=["<think>", "Hm", "</think>", "Hello"])]
    answer = await new.ask(await new.agent(MODEL), "hi")
    assert (answer["code"], answer["message"]) == (0, "success")
    data = answer["data"]
    assert sorted(data) == sorted(KEYS)
    assert (data["event"], data["data"]["content"]) == ("message_end", "<think>Hm</think>Hello")
    assert set(data["data"]) == {"content", "reference", "usage"}
    silent = canvas(("begin", "Begin", {}, []))
    assert (await new.ask(await new.agent(silent)))["data"]["event"] == "workflow_started"


def build(sent: Sequence[WireEvent], forwarding: Any = "all") -> list[Any]:
    envelope = Envelope("m", 1, "s", "s")
    builder = FrameBuilder1(envelope, forwarding, asked="hi", now_ms=lambda: 2000)
    return [frame for event in sent for frame in builder.build(event)]


def test_the_ends_of_messages_are_one() -> None:
    sent: list[WireEvent] = [
        Message("A"),
        MessageEnd({"status": "201", "downloads": [{"doc_id": "1"}], "reference": {"chunks": {"1": {"id": "c"}}}}),
        Message("B"),
        MessageEnd({"attachment": {"doc_id": "2"}, "downloads": [{"doc_id": "2"}]}),
    ]
    *_, end, finished = build([*sent, WorkflowFinished({}, {}, 0.0, 1.0)])
    reference = {"chunks": [{"id": "c", "citation_id": "1"}], "doc_aggs": [], "total": 1}
    assert end["data"] == {"status": "201", "attachment": {"doc_id": "2"}, "reference": reference}
    assert finished["data"]["outputs"] == {"content": "AB", "downloads": [{"doc_id": "1"}, {"doc_id": "2"}]}
    *_, last, cancelled = build([*sent, WorkflowFinished({}, CANCELLED_TEXT, 0.0, 1.0)])
    assert (last["event"], last["data"]) == ("message_end", end["data"])
    assert cancelled["data"] == {"message": CANCELLED, "downloads": [{"doc_id": "1"}, {"doc_id": "2"}]}
    assert events(build([Message("A"), MessageEnd(), WorkflowFinished({}, CANCELLED_TEXT, 0.0, 1.0)])) == [
        "message",
        "cancelled",
    ]
    assert events(build([WorkflowFinished({}, {}, 0.0, 1.0)])) == ["workflow_finished"]


def test_a_form_without_tips_and_fields_is_short() -> None:
    waiting = build([UserInputs({}, "", ("UserFillUp:0", "UserFillUp:1"))], "page")
    assert [(frame["event"], frame["data"]) for frame in waiting] == [("waiting_for_user", {"cpn_id": "UserFillUp:0"})]
    assert events(build([UserInputs({"a": {}}, "Hm")])) == ["waiting_for_user"]


def test_a_form_does_not_hide_the_files_before_it() -> None:
    end = MessageEnd({"status": "201", "attachment": {"doc_id": "2"}, "downloads": [{"doc_id": "1"}]})
    sent: list[WireEvent] = [Message("A"), end, UserInputs({}, "Hm", ("UserFillUp:0",))]
    waiting = {"cpn_id": "UserFillUp:0", "tips": "Hm", "downloads": [{"doc_id": "1"}]}
    assert build(sent)[-1]["data"] == waiting
    builder = FrameBuilder1(Envelope("m", 1, "s", "s"), "all", asked="hi", now_ms=lambda: 2000)
    collector = AnswerCollector1(builder, has_trace=False)
    for event in sent:
        collector.feed(event)
    answer = collector.build_answer()
    told = {"status": "201", "attachment": {"doc_id": "2"}, "content": "A"}
    assert (answer["event"], {**answer["data"], **waiting, **told}) == ("waiting_for_user", answer["data"])


async def test_a_broken_stream_goes_on_with_all_that_is_missing(new: AppServer) -> None:
    agent_id = await new.agent(TWO)
    body = {"agent_id": agent_id, "query": "hi", "stream": True}
    ids = {"X-RAGFlow-Event-Ids": "true"}
    text = (await new.client.post("/agents/chat/completions", json=body, headers=ids)).text
    parts = text.split("\n\n")
    assert [part.startswith("id:") for part in parts[:-2]] == [True] * (len(parts) - 4) + [False, True]
    for place in (1, 4, len(parts) - 5):
        position = parts[place].partition("\n")[0].removeprefix("id:")
        rest = await new.client.post("/agents/chat/completions", json=body, headers={**ids, "Last-Event-ID": position})
        received = [part.split("data:", 1)[1] for part in rest.text.split("\n\n")[:-2]]
        expected = [part.split("data:", 1)[1] for part in parts[place + 1 : -2]]
        assert [one.split('"data":', 1)[1] for one in received] == [one.split('"data":', 1)[1] for one in expected]
    embedded = f"/agentbots/{agent_id}/completions"
    page = {**await new.page(), **ids}
    of_page = (await new.client.post(embedded, json={"query": "hi"}, headers=page)).text
    for path, key, first in (("/agents/chat/completions", ids, text), (embedded, page, of_page)):
        position = first.partition("\n")[0].removeprefix("id:")
        short = {"agent_id": agent_id, "stream": True}
        rest = await new.client.post(path, json=short, headers={**key, "Last-Event-ID": position})
        assert json.loads(rest.text.split("\n\n")[-3].split("data:", 1)[1])["data"]["inputs"] == {"query": "hi"}


async def test_a_stream_whose_beginning_is_gone_is_refused(new: AppServer) -> None:
    agent_id = await new.agent(TWO)
    run = (await new.stream(agent_id, "hi"))[0]["message_id"]
    body, place = {"agent_id": agent_id, "stream": True}, {"Last-Event-ID": f"{run}:9"}
    journal: Any = new.app_state.run_manager.journal
    journal._runs[run].window.drop()
    refused = await new.post("/agents/chat/completions", body, headers=place)
    assert (refused["code"], refused["message"]) == (
        101,
        f"The first events of run {run} have been dropped, and the last ones need them. Read the session's messages "
        "instead.",
    )
    old = await new.client.post("/agents/chat/completions", json=body, headers={**place, COMPAT: "0.27"})
    assert '"event":"workflow_finished"' in old.text


async def test_a_session_that_is_busy(new: AppServer) -> None:
    new.model.replies += [Reply(hangs=True)]
    agent_id = await new.agent(MODEL)
    session = await new.session(agent_id)
    first = asyncio.create_task(new.ask(agent_id, session_id=session))
    await wait_while(lambda: not new.model.is_hanging)
    refused = await new.ask(agent_id, "again", session_id=session)
    assert (refused["code"], refused["message"]) == (103, "This agent session is already running.")
    await new.post(f"/tasks/{session}/cancel")
    await first


async def test_every_event_on_every_path(new: AppServer) -> None:
    agent_id = await new.agent(ECHO)
    session = await new.session(agent_id)
    everything = ["workflow_started", "node_started", "node_finished", "message", "message_end", "workflow_finished"]
    assert list(dict.fromkeys(events(await new.stream(agent_id, session_id=session)))) == everything
    played = await new.client.post(f"/agents/{agent_id}/run", json={"query": "hi", "version": "draft"})
    assert list(dict.fromkeys(events(frames(played.text)))) == everything
    whole = await new.post(f"/agents/{agent_id}/run", {"query": "hi", "version": "draft", "stream": False})
    assert whole["data"]["event"] == "message_end"


async def test_pages(new: AppServer) -> None:
    agent_id = await new.agent(ECHO)
    for key in (await new.page(), {}):
        answer = await new.client.post(f"/agentbots/{agent_id}/completions", json={"query": "hi"}, headers=key)
        received = frames(answer.text)
        assert list(dict.fromkeys(events(received))) == ["message", "message_end", "workflow_finished"]
        assert received[-1]["data"]["outputs"] == "You said hi"
        assert "usage" not in received[-1]["data"]
        opened = await new.client.get(f"/agentbots/{agent_id}/inputs", headers=key)
        assert (opened.json()["message"], "X-RAGFlow-Visitor" in opened.headers) == ("success", bool(key))
    older = await new.client.get(f"/agentbots/{agent_id}/inputs", headers={"X-RAGFlow-Compat": "0.27"})
    assert older.json()["code"] == 102  # the key of a program
    new.model.replies += [Reply(error="internal-host.example")]
    failing = f"/agentbots/{await new.agent(MODEL)}/completions"
    (error,) = frames((await new.client.post(failing, json={"query": "hi"}, headers=await new.page())).text)
    assert (error["code"], error["message"]) == (500, "The agent failed. Its owner can see the reason.")


async def test_openai(new: AppServer) -> None:
    new.model.replies += [Reply(error="no model", repeat=True)]
    messages = [{"role": "user", "content": "hi"}]

    async def ask(agent_id: str, *, is_streamed: bool, **more: Any) -> Any:
        body = {"agent_id": agent_id, "openai-compatible": True, "messages": messages, "stream": is_streamed, **more}
        return await new.client.post("/agents/chat/completions", json=body)

    def last(text: str) -> Any:
        assert text.endswith("data: [DONE]\n\n")
        *_, chunk, _ = frames_of(text)
        (choice,) = chunk["choices"]
        assert "total_tokens" in chunk["usage"]
        return choice["finish_reason"], choice["delta"]

    form, echo, broken = await new.agent(FORM), await new.agent(ECHO), await new.agent(MODEL)
    reason, delta = last((await ask(form, is_streamed=True)).text)
    assert (reason, delta["content"]) == ("waiting_for_user", None)
    assert (delta["waiting_for_user"]["cpn_id"], delta["waiting_for_user"]["tips"]) == ("UserFillUp:0", "Which size?")
    reason, delta = last((await ask(echo, is_streamed=True)).text)
    assert (reason, delta["content"]) == ("stop", None)
    reason, delta = last((await ask(broken, is_streamed=True)).text)
    assert (reason, delta["error"]["type"], "no model" in delta["error"]["message"]) == ("error", "server_error", True)
    cases: list[tuple[str, dict[str, Any], int, str]] = [
        (form, {}, 409, "cpn_id: UserFillUp:0 Which size?"),
        (broken, {}, 500, "no model"),
        ("0" * 32, {}, 404, "permission"),
        (echo, {"session_id": "0" * 32}, 404, "Session not found!"),
    ]
    for agent_id, more, status, text in cases:
        answer = await ask(agent_id, is_streamed=False, **more)
        assert (answer.status_code, text in answer.json()["error"]["message"]) == (status, True), answer.text
    missing = await ask(echo, is_streamed=False, messages=[])
    assert (missing.status_code, missing.json()["code"]) == (200, 102)


def frames_of(text: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    return [json.loads(line) if line != "[DONE]" else line for line in lines]
