import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
import sqlalchemy
from a2a.client import A2AClientError, Client, ClientCallContext
from a2a.types import CancelTaskRequest, GetExtendedAgentCardRequest, GetTaskRequest, Part, SubscribeToTaskRequest, Task
from a2a.utils.errors import A2AError, InternalError, TaskNotFoundError
from google.protobuf.json_format import MessageToDict

from ragflow_lg.base import extras
from ragflow_lg.integrations.a2a import agent_tasks
from ragflow_lg.server.database import session_repository
from ragflow_lg.server.database.tables import VersionRow
from ragflow_lg.server.http.shared.request_bodies import TURN_BYTES
from tests.fakes.a2a_client import WIRES, message, open_client, send, state_of, text_of, update
from tests.fakes.agents import tool_calls
from tests.fakes.services import Reply
from tests.server.http.app_server import APPROVING, ECHO, FORM, MODEL, AppServer, canvas, says, start_app

CITY = {"name": "Where to?", "type": "line", "optional": False}
DAYS = {"name": "How long?", "type": "integer", "optional": True}
TRIP = says("{begin@days} days in {begin@city}", {"mode": "task", "inputs": {"city": CITY, "days": DAYS}})

SIZE = {"type": "integer", "optional": True}
FORMS = canvas(
    ("begin", "Begin", {}, ["UserFillUp:0"]),
    ("UserFillUp:0", "UserFillUp", {"inputs": {"size": SIZE}}, ["UserFillUp:1"]),
    ("UserFillUp:1", "UserFillUp", {"inputs": {"width": SIZE, "height": SIZE}}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["{UserFillUp:0@size} {UserFillUp:1@width}"]}, []),
)
"""An agent that asks twice, the second time for two values."""

REFUSALS = (A2AError, A2AClientError)


@asynccontextmanager
async def client_of(
    server: AppServer, agent_id: str, wire: tuple[str, str] = WIRES[0], key: str = "", **options: Any
) -> AsyncGenerator[Client]:
    async with open_client(f"{server.url}/a2a/{agent_id}", key or server.key, wire, **options) as client:
        yield client


def asked(task: Task) -> str:
    return task.status.message.parts[0].text


async def test_a_turn_is_a_task(tmp_path: Path) -> None:
    async with start_app(tmp_path, busy_s=5) as server:
        agent = await server.agent(ECHO)
        for wire in WIRES:
            for streaming in (True, False) if wire == WIRES[0] else (True,):
                async with client_of(server, agent, wire, streaming=streaming) as client:
                    task = await send(client, "hi")
                    assert (state_of(task), text_of(task)) == ("COMPLETED", "You said hi"), wire
                    again = await send(client, "you", context=task.context_id)
                    assert (again.context_id, text_of(again)) == (task.context_id, "You said you")
                    assert again.id != task.id
                    got = await client.get_task(GetTaskRequest(id=task.id))
                    assert (state_of(got), text_of(got)) == ("COMPLETED", "You said hi")
                    assert [each.parts[0].text for each in got.history] == ["hi", "You said hi"]
                assert await server.texts(task.context_id) == ["hi", "You said hi", "you", "You said you"]


async def test_a_form_is_input_that_is_required(tmp_path: Path) -> None:
    async with start_app(tmp_path, busy_s=5) as server:
        agent = await server.agent(FORM)
        for wire in WIRES:
            async with client_of(server, agent, wire) as client:
                task = await send(client, "hi")
                assert (state_of(task), asked(task)) == ("INPUT_REQUIRED", "Which size?"), wire
                schema = MessageToDict(task.status.message.parts[1].data)
                assert schema["properties"]["size"]["type"] == "integer"
                with pytest.raises(REFUSALS, match="should be a whole number"):
                    await send(client, {"size": "big"}, task=task.id)
                answered = await send(client, {"size": 42}, task=task.id)
                assert (answered.id, state_of(answered), text_of(answered)) == (task.id, "COMPLETED", "Size 42")
                got = await client.get_task(GetTaskRequest(id=task.id))
                assert (got.id, state_of(got), text_of(got)) == (task.id, "COMPLETED", "Size 42")
                with pytest.raises(REFUSALS, match="does not wait"):
                    await send(client, "43", task=task.id)
                form = await send(client, "again", context=task.context_id)
                assert state_of(form) == "INPUT_REQUIRED"
                for ids in ({"context": form.context_id}, {"task": (await send(client, "and again")).id}):
                    assert text_of(await send(client, "43", **ids)) == "Size 43"


async def test_an_answer_loses_no_part(tmp_path: Path) -> None:
    file = Part(raw=b"7", filename="size.txt")
    async with start_app(tmp_path, busy_s=5) as server, client_of(server, await server.agent(FORMS)) as client:
        task = await send(client, "hi")
        await send(client, "7", task=task.id)
        for parts, problem in (
            (("8", {"width": 8}), "not with both"),
            (({"width": 8}, file), "bytes of files"),
            (("8",), "not one field"),
            (({"width": 9007199254740993},), "Send it as a string"),
            (({"width": 1e300},), "Send it as a string"),
        ):
            with pytest.raises(REFUSALS, match=problem):
                await send(client, *parts, task=task.id)
        assert text_of(await send(client, '{"width": 8}', task=task.id)) == "7 8"


async def test_all_answers_belong_to_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_repository, "RUN_PAGE", 1)
    async with start_app(tmp_path, busy_s=5) as server, client_of(server, await server.agent(FORMS)) as client:
        for is_named in (True, False):
            task = await send(client, "hi")
            ids = {"task": task.id} if is_named else {"context": task.context_id}
            for number, answer in enumerate(({"size": 7}, {"width": 8})):
                context = ClientCallContext(service_parameters={"Idempotency-Key": f"{is_named} {number}"})
                for _ in range(2):
                    seen = Task()
                    async for each in client.send_message(message(answer, **ids), context=context):
                        update(seen, each)
                    assert (seen.id, state_of(seen)) == (task.id, ("INPUT_REQUIRED", "COMPLETED")[number])
            got = await client.get_task(GetTaskRequest(id=task.id))
            assert (state_of(got), text_of(got)) == ("COMPLETED", "7 8")


async def test_a_text_approves_a_call(tmp_path: Path) -> None:
    replies = [tool_calls(("Helper_0", {"user_prompt": "pay 100"})), Reply("paid"), Reply("All is paid.")]
    async with (
        start_app(tmp_path, replies, busy_s=5) as server,
        client_of(server, await server.agent(APPROVING), WIRES[0]) as client,
    ):
        task = await send(client, "Pay")
        assert (state_of(task), "pay 100" in asked(task)) == ("INPUT_REQUIRED", True)
        assert text_of(await send(client, "approve", task=task.id)).endswith("All is paid.")


async def test_a_client_comes_back_to_a_task(tmp_path: Path) -> None:
    words = [f"{number} " for number in range(30)]
    async with start_app(tmp_path, [Reply(chunks=words, pause_s=0.02, repeat=True)], busy_s=5) as server:
        agent = await server.agent(MODEL)
        for wire in WIRES:
            async with client_of(server, agent, wire) as client:
                task = Task()
                stream = client.send_message(message("count"))
                async for each in stream:
                    update(task, each)
                    if len(text_of(task)) > 20:
                        break
                await cast("Any", stream).aclose()
                assert state_of(task) == "WORKING"
                got = await client.get_task(GetTaskRequest(id=task.id))
                assert state_of(got) == "WORKING"
                async for each in client.subscribe(SubscribeToTaskRequest(id=task.id)):
                    update(task, each)
                assert (state_of(task), text_of(task)) == ("COMPLETED", "".join(words))
                with pytest.raises(REFUSALS, match="has ended"):
                    await anext(cast("Any", client.subscribe(SubscribeToTaskRequest(id=task.id))))


async def test_a_client_comes_back_after_an_event(tmp_path: Path) -> None:
    words = [f"{number} " for number in range(30)]
    async with (
        start_app(tmp_path, [Reply(chunks=words, pause_s=0.02)], busy_s=5) as server,
        client_of(server, await server.agent(MODEL)) as client,
    ):
        task, event = Task(), ""
        async for each in client.send_message(message("count")):
            update(task, each)
            if each.HasField("artifact_update"):
                event = MessageToDict(each.artifact_update.metadata)["event"]
            if len(text_of(task)) > 20:
                break
        headers = {"Last-Event-ID": event}
        context = ClientCallContext(service_parameters=headers)
        seen = text_of(task)
        async for each in client.subscribe(SubscribeToTaskRequest(id=task.id), context=context):
            if each.HasField("artifact_update"):
                assert each.artifact_update.append
                seen += "".join(part.text for part in each.artifact_update.artifact.parts)
        assert seen == "".join(words)


async def test_a_task_is_stopped(tmp_path: Path) -> None:
    async with start_app(tmp_path, [Reply(chunks=["a"] * 1000, pause_s=0.02, repeat=True)], busy_s=5) as server:
        slow, form = await server.agent(MODEL), await server.agent(FORM)
        for wire in WIRES:
            async with client_of(server, slow, wire, streaming=False, polling=True) as client:
                task = await send(client, "hi")
                assert state_of(task) in ("WORKING", "SUBMITTED")
                stopped = await client.cancel_task(CancelTaskRequest(id=task.id))
                assert (stopped.id, state_of(stopped)) == (task.id, "CANCELED")
                assert not server.running
                with pytest.raises(REFUSALS, match="be canceled"):
                    await client.cancel_task(CancelTaskRequest(id=task.id))
            async with client_of(server, form, wire) as client:
                task = await send(client, "hi")
                assert state_of(await client.cancel_task(CancelTaskRequest(id=task.id))) == "CANCELED"
                another = await send(client, "hi", context=task.context_id)
                assert (another.context_id, another.id == task.id) == (task.context_id, False)
                assert text_of(await send(client, "7", task=another.id)) == "Size 7"
                given_up = await client.get_task(GetTaskRequest(id=task.id))
                assert (state_of(given_up), text_of(given_up)) == ("CANCELED", "")


async def test_a_failure_has_our_text_and_code(tmp_path: Path) -> None:
    async with start_app(tmp_path, [Reply(error="The model is on holiday.", repeat=True)], busy_s=5) as server:
        agent = await server.agent(MODEL)
        async with client_of(server, agent) as client:
            for task in (
                await send(client, "hi"),
                await client.get_task(GetTaskRequest(id=(await send(client, "hi")).id)),
            ):
                assert state_of(task) == "FAILED"
                assert "The model is on holiday." in asked(task)
                assert MessageToDict(task.status.message.metadata) == {"code": "run-failed"}


async def test_files_go_both_ways(tmp_path: Path) -> None:
    async with start_app(tmp_path, busy_s=5) as server:
        agent = await server.agent(says("{sys.files} {sys.query}"))
        for wire in WIRES:
            async with client_of(server, agent, wire) as client:
                card = await client.get_extended_agent_card(GetExtendedAgentCardRequest())
                assert "*/*" in card.default_input_modes
                file = Part(raw=b"Rome, 3 days", filename="trip.txt", media_type="text/plain")
                assert "Rome, 3 days" in text_of(await send(client, "read", file))
                (stored,) = (await server.get("/files", params={"page_size": 1}))["data"]["files"]
                offered = {"doc_id": stored["id"], "filename": "trip.txt", "mime_type": "text/plain"}
                task = await send(client, json.dumps(offered))
                for each in (task, await client.get_task(GetTaskRequest(id=task.id))):
                    (answer,) = [part for artifact in each.artifacts for part in artifact.parts if part.raw]
                    assert (answer.filename, answer.media_type) == ("trip.txt", "text/plain")
                    assert answer.raw == b"Rome, 3 days"


async def test_files_need_a_component_that_reads_them(tmp_path: Path) -> None:
    async with start_app(tmp_path, busy_s=5) as server, client_of(server, await server.agent(ECHO)) as client:
        file, context = Part(raw=b"x", filename="a.png", media_type="image/png"), (await send(client, "hi")).context_id
        for ids in ({}, {"context": context}):
            with pytest.raises(REFUSALS, match="no component of the agent reads files"):
                await send(client, "read", file, **ids)
        card = await client.get_extended_agent_card(GetExtendedAgentCardRequest())
        assert "*/*" not in card.default_input_modes


async def test_files_beyond_a_limit_are_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_tasks, "MAX_FILE_BYTES", 5)
    async with start_app(tmp_path, busy_s=5) as server:
        agent = await server.agent(says("{sys.query}{sys.files}"))
        async with client_of(server, agent) as client:
            await send(client, "read", *(Part(raw=text, filename="a.txt") for text in (b"123", b"456")))
            stored = (await server.get("/files"))["data"]["files"]
            names = [(stored[0], "a"), (stored[0], "b"), (stored[1], "c")]
            offered = [{"doc_id": file["id"], "filename": name, "mime_type": "text/plain"} for file, name in names]
            task = await send(client, json.dumps(offered))
            for each in (task, await client.get_task(GetTaskRequest(id=task.id))):
                files = [part for artifact in each.artifacts for part in artifact.parts if part.filename]
                assert [len(part.raw) for part in files] == [3, 0]
                assert files[1].url == f"{server.url}/api/v1/files/{stored[1]['id']}"


async def test_a_card_is_whole_with_a_key_only(tmp_path: Path) -> None:
    async with start_app(tmp_path, busy_s=5) as server:
        agent = await server.agent(TRIP, title="Trip planner", description="Plans trips.")
        other = await server.new_key("other")
        async with client_of(server, agent) as client:
            card = await client.get_extended_agent_card(GetExtendedAgentCardRequest())
        assert (card.name, card.description) == ("Trip planner", "Plans trips.")
        assert "city (line), days (integer, optional)" in card.skills[0].description
        async with server.stranger() as http:
            paths = [f"/a2a/{id_}/.well-known/agent-card.json" for id_ in (agent, "0" * 32)]
            public = [(await http.get(path)).text.replace(agent, "0" * 32) for path in paths]
            assert public[0] == public[1]
            assert "Trip" not in public[0]
            assert (await http.get(paths[0], headers={"Authorization": "Bearer wrong"})).status_code == 401
            strange = await http.get(paths[0], headers={"Authorization": f"Bearer {other}"})
            assert strange.status_code == 404
            old = (await http.get(paths[0], headers={"Authorization": f"Bearer {server.key}"})).json()
            assert (old["protocolVersion"], old["url"]) == ("0.3", f"{server.url}/a2a/{agent}")


async def test_a_full_server_says_when_to_come_again(tmp_path: Path) -> None:
    replies = [Reply(chunks=["a"] * 1000, pause_s=0.02, repeat=True)]
    async with start_app(tmp_path, replies, max_runs=1, run_wait_s=0.05) as server:
        agent = await server.agent(MODEL)
        async with client_of(server, agent, streaming=False, polling=True) as client:
            task = await send(client, "hi")
            with pytest.raises(InternalError) as refused:
                await send(client, "hi")
            assert vars(refused.value)["data"] == {"code": "too-many-requests", "status": 429, "retry_s": 1.0}
            await client.cancel_task(CancelTaskRequest(id=task.id))


async def test_a_canvas_with_errors_has_no_card(tmp_path: Path) -> None:
    async with start_app(tmp_path, busy_s=5) as server:
        agent = await server.agent(ECHO)
        async with server.app_state.database.writing() as db:  # as if it was stored by a server with more components
            broken = json.dumps(canvas(("begin", "Begin", {}, ["x"]), ("x", "Nobody", {}, [])))
            await db.execute(sqlalchemy.update(VersionRow).where(VersionRow.agent_id == agent).values(dsl=broken))
        path = f"{server.url}/a2a/{agent}/.well-known/agent-card.json"
        answer = await server.client.get(path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "canvas-invalid")


async def test_the_endpoint_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with start_app(tmp_path, busy_s=5) as server:
        monkeypatch.setattr(extras, "find_spec", Mock(return_value=None))
        answer = await server.client.get(f"{server.url}/a2a/{'0' * 32}/.well-known/agent-card.json")
    assert answer.status_code == 404
    assert "Install them with: " in answer.json()["error"]["message"]


async def test_tasks_belong_to_their_tenant_and_agent(tmp_path: Path) -> None:
    async with start_app(tmp_path, busy_s=5) as server:
        agent, second = await server.agent(FORM), await server.agent(FORM)
        other = await server.new_key("other")
        foreign = (await server.post("/agents", {"title": "x", "dsl": FORM}, headers=bearer(other)))["data"]["id"]
        async with client_of(server, agent) as client:
            task = await send(client, "hi")
        for id_, key in ((foreign, other), (second, "")):
            async with client_of(server, id_, key=key) as client:
                for call in (
                    client.get_task(GetTaskRequest(id=task.id)),
                    client.cancel_task(CancelTaskRequest(id=task.id)),
                    send(client, {"size": 1}, task=task.id),
                    anext(cast("Any", client.subscribe(SubscribeToTaskRequest(id=task.id)))),
                ):
                    with pytest.raises(TaskNotFoundError):
                        await call
                with pytest.raises(REFUSALS, match="no such session"):
                    await send(client, "hi", context=task.context_id)
        async with server.stranger() as http:
            body = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"id": task.id}}
            for key, status in (("", 401), ("ragflow-wrong", 401), (other, 404)):
                assert (await http.post(f"/a2a/{agent}", json=body, headers=bearer(key))).status_code == status
        async with client_of(server, agent) as client:
            assert state_of(await client.get_task(GetTaskRequest(id=task.id))) == "INPUT_REQUIRED"


async def test_bodies_have_the_limits_of_turns(tmp_path: Path) -> None:
    async with start_app(tmp_path, busy_s=5) as server:
        path = f"/a2a/{await server.agent(ECHO)}"
        async with server.stranger() as http:
            http.headers.update(bearer(server.key))
            assert (await http.post(path, content=b"x" * (TURN_BYTES + 1))).status_code == 413
            deep = b'{"jsonrpc":"2.0","id":1,"method":"message/send","params":' + b"[" * 200 + b"]" * 200 + b"}"
            for body in (deep, b"{", b"\xff"):
                answer = await http.post(path, content=body)
                assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad-request")
            for part in ({"kind": "file", "file": {"uri": "http://10.0.0.1/"}}, {"kind": "data", "data": {"x": 1}}):
                body = {"messageId": "1", "role": "user", "parts": [part]}
                sent = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": body}}
                assert (await http.post(path, json=sent)).json()["error"]["code"] == -32602


async def test_a_request_that_is_repeated_has_one_task(tmp_path: Path) -> None:
    async with start_app(tmp_path, busy_s=5) as server, client_of(server, await server.agent(ECHO)) as client:
        context = ClientCallContext(service_parameters={"Idempotency-Key": "1"})
        request = message("hi")
        ids = set[str]()
        for _ in range(2):
            async for each in client.send_message(request, context=context):
                ids |= {each.task.id} if each.HasField("task") else set()
        assert len(ids) == 1


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}
