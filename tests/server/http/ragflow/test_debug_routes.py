import asyncio
from pathlib import Path

import httpx
from msgspec.structs import replace

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.http.app import make_app
from ragflow_lg.services.chat import Usage
from ragflow_lg.services.sessions import RunRecord, Trace
from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, FORM, MODEL, canvas, start_app

USED = {**ECHO, "history": [["user", "Hi"]], "path": ["begin"], "globals": {"sys.query": "Hi", "env.x": "changed"}}
TRACE: Trace = [
    {"component_id": "Agent:0", "trace": [{"path": "A-->t", "tool_name": "t", "arguments": {}, "result": 1}]}
]


async def test_a_reset_removes_the_traces_of_turns(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(USED)
        answer = (await server.client.post(f"/agents/{agent_id}/reset", json={})).json()
        assert (answer["code"], answer["data"]["history"], answer["data"]["path"]) == (0, [], [])
        assert answer["data"]["globals"] == {"sys.query": "", "env.x": ""}
        assert (await server.client.get(f"/agents/{agent_id}")).json()["data"]["dsl"] == answer["data"]
        assert (await server.client.post(f"/agents/{agent_id}/reset")).json() == answer
        other = {"Authorization": await KeyRepository(server.app_state.database).create("other", 1)}
        for path in ("reset", "components/begin/debug"):
            refused = await server.client.post(f"/agents/{agent_id}/{path}", json={"params": {}}, headers=other)
            assert refused.json()["code"] == 103


async def test_input_forms_are_returned(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(FORM)
        form = (await server.client.get(f"/agents/{agent_id}/components/UserFillUp:0/input-form")).json()
        assert form == {"code": 0, "message": "success", "data": {"size": {"name": "Size", "type": "integer"}}}
        form = (await server.client.get(f"/agents/{agent_id}/components/Message:0/input-form")).json()["data"]
        assert form["UserFillUp:0@size"] == {
            "name": "UserFillUp:0@size",
            "type": "line",
            "value": "",
            "optional": False,
        }
        missing = (await server.client.get(f"/agents/{agent_id}/components/Nobody:0/input-form")).json()
        assert (missing["code"], "no component 'Nobody:0'" in missing["message"]) == (102, True)


async def test_a_debugged_component_takes_a_run_slot(tmp_path: Path) -> None:
    async with start_app(tmp_path, [Reply(hangs=True, repeat=True)], max_runs=1, max_waiting_runs=0) as server:
        agent_id = await server.agent(MODEL)
        path, body = f"/agents/{agent_id}/components/LLM:0/debug", {"params": {"sys.query": {"value": "Hi"}}}
        first = asyncio.create_task(server.client.post(path, json=body))
        async with asyncio.timeout(10):
            while not server.model.is_hanging:
                await asyncio.sleep(0.005)
        assert (await server.ask(agent_id))["code"] == 429
        assert (await server.client.post(path, json=body)).status_code == 429
        first.cancel()  # a disconnect releases the slot
        async with asyncio.timeout(10):
            while server.turns._slots.in_use:
                await asyncio.sleep(0.005)


async def test_a_component_is_run(tmp_path: Path) -> None:
    async with start_app(tmp_path, [Reply(chunks=["Hell", "o"])]) as server:
        path = f"/agents/{await server.agent(MODEL)}/components/LLM:0/debug"
        answer = (await server.client.post(path, json={"params": {"sys.query": {"value": "Hi"}}})).json()
        assert (answer["code"], answer["data"]["content"]) == (0, "Hello")
        assert {"_created_time", "_elapsed_time"} <= set(answer["data"])
        assert server.model.requests[0][1].messages[-1]["content"] == "Hi"
        for body, words in (
            ({}, "required argument are missing: params"),
            ({"params": [1]}, "must be an object"),
            ({"params": {"sys.query": "Hi"}}, "must be an object with a value"),
            ({"params": {"nonsense": {"value": 1}}}, "does not read 'nonsense'"),
        ):
            refused = (await server.client.post(path, json=body)).json()
            assert (refused["code"], words in refused["message"]) == (101, True)


async def test_tokens_of_a_component_count(tmp_path: Path) -> None:
    replies = [Reply("a", usage=Usage(1000, 1000, 1, 0.5)) for _ in range(3)]
    async with start_app(tmp_path, replies, sections={"tenants": {"tenant": {"tokens_day": 100}}}) as server:
        path = f"/agents/{await server.agent(MODEL)}/components/LLM:0/debug"
        body = {"params": {"sys.query": {"value": "Hi"}}}
        assert (await server.client.post(path, json=body)).json()["data"]["content"] == "a"
        assert (await server.client.post(path, json=body)).status_code == 429


async def test_a_canvas_with_errors_is_refused(tmp_path: Path) -> None:
    empty = canvas(("begin", "Begin", {}, ["Loop:0"]), ("Loop:0", "Loop", {"loop_variables": []}, []))
    async with start_app(tmp_path) as server:
        path = f"/agents/{await server.agent(empty)}/components/begin/input-form"
        answer = (await server.client.get(path)).json()
        assert (answer["code"], "Loop has no body" in answer["message"]) == (101, True)


async def test_a_component_cannot_reach_internal_addresses(tmp_path: Path) -> None:
    invoke = canvas(
        ("begin", "Begin", {}, ["Invoke:0"]),
        ("Invoke:0", "Invoke", {"url": "{sys.query}", "method": "get"}, []),
    )
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(invoke)
        http = GuardedHttpClient(HttpSettings())
        app_state = replace(server.app_state, services=replace(server.app_state.services, http=http))
        transport = httpx.ASGITransport(make_app(app_state))
        headers = {"Authorization": server.key}
        async with httpx.AsyncClient(transport=transport, base_url="http://here", headers=headers) as client:
            body = {"params": {"sys.query": {"value": f"{server.url}/api/v1/agents"}}}
            answer = await client.post(f"/api/v1/agents/{agent_id}/components/Invoke:0/debug", json=body)
        assert "is refused" in answer.json()["data"]["_ERROR"]
        await http.aclose()


async def test_a_trace_is_returned_for_its_agent_and_tenant_only(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id, other_id = await server.agent(ECHO), await server.agent(ECHO, "Other")
        answer = await server.ask(agent_id)
        run_id = answer["data"]["message_id"]
        path = f"/agents/{agent_id}/logs/{run_id}"
        assert (await server.client.get(path)).json() == {"code": 0, "message": "success", "data": {}}
        await server.app_state.store.traces.put(RunRecord(run_id, answer["data"]["session_id"]), TRACE)
        assert (await server.client.get(path)).json()["data"] == TRACE
        assert (await server.client.get(f"/agents/{other_id}/logs/{run_id}")).json()["data"] == {}
        assert (await server.client.get(f"/agents/{agent_id}/logs/{'0' * 32}")).json()["data"] == {}
        keys = KeyRepository(server.app_state.database)
        page = path.replace("/agents/", "/agentbots/")
        beta = {"Authorization": await keys.create("tenant", 1, kind="beta")}
        assert (await server.client.get(page, headers=beta)).json()["data"] == {}
        for kind, question, code in (("api", path, 103), ("beta", page, 102)):
            theirs = {"Authorization": await keys.create("other", 1, kind=kind)}
            assert (await server.client.get(question, headers=theirs)).json()["code"] == code
