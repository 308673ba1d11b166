import asyncio
from pathlib import Path

from ragflow_lg.services.chat import Usage
from ragflow_lg.services.sessions import RunRecord, Trace
from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, FORM, MODEL, AppServer, canvas, start_app
from tests.server.waiting import wait_while

USED = {**ECHO, "history": [["user", "Hi"]], "path": ["begin"], "globals": {"sys.query": "Hi", "env.x": "changed"}}
TRACE: Trace = [
    {"component_id": "Agent:0", "trace": [{"path": "A-->t", "tool_name": "t", "arguments": {}, "result": 1}]}
]


async def test_a_reset_removes_the_traces_of_turns(server: AppServer) -> None:
    agent_id = await server.agent(USED)
    answer = await server.post(f"/agents/{agent_id}/reset", {})
    assert (answer["code"], answer["data"]["history"], answer["data"]["path"]) == (0, [], [])
    assert answer["data"]["globals"] == {"sys.query": "", "env.x": ""}
    assert (await server.get(f"/agents/{agent_id}"))["data"]["dsl"] == answer["data"]
    assert (await server.post(f"/agents/{agent_id}/reset")) == answer
    other = {"Authorization": await server.new_key("other")}
    for path in ("reset", "components/begin/debug"):
        refused = await server.client.post(f"/agents/{agent_id}/{path}", json={"params": {}}, headers=other)
        assert refused.json()["code"] == 103


async def test_input_forms_are_returned(server: AppServer) -> None:
    agent_id = await server.agent(FORM)
    form = await server.get(f"/agents/{agent_id}/components/UserFillUp:0/input-form")
    assert form == {"code": 0, "message": "success", "data": {"size": {"name": "Size", "type": "integer"}}}
    form = (await server.get(f"/agents/{agent_id}/components/Message:0/input-form"))["data"]
    assert form["UserFillUp:0@size"] == {"name": "UserFillUp:0@size", "type": "line", "value": "", "optional": False}
    missing = await server.get(f"/agents/{agent_id}/components/Nobody:0/input-form")
    assert (missing["code"], "no component 'Nobody:0'" in missing["message"]) == (102, True)
    empty = canvas(("begin", "Begin", {}, ["Loop:0"]), ("Loop:0", "Loop", {"loop_variables": []}, []))
    answer = await server.get(f"/agents/{await server.agent(empty)}/components/begin/input-form")
    assert (answer["code"], "Loop has no body" in answer["message"]) == (101, True)


async def test_a_debugged_component_takes_a_run_slot(tmp_path: Path) -> None:
    async with start_app(tmp_path, [Reply(hangs=True, repeat=True)], max_runs=1, max_waiting_runs=0) as server:
        agent_id = await server.agent(MODEL)
        path, body = f"/agents/{agent_id}/components/LLM:0/debug", {"params": {"sys.query": {"value": "Hi"}}}
        first = asyncio.create_task(server.client.post(path, json=body))
        await wait_while(lambda: not server.model.is_hanging)
        assert (await server.ask(agent_id))["code"] == 429
        assert (await server.client.post(path, json=body)).status_code == 429
        first.cancel()  # a disconnect releases the slot
        await wait_while(lambda: server.turns._slots.in_use)


async def test_a_component_is_run(server: AppServer) -> None:
    server.model.replies += [Reply(chunks=["Hell", "o"])]
    path = f"/agents/{await server.agent(MODEL)}/components/LLM:0/debug"
    answer = await server.post(path, {"params": {"sys.query": {"value": "Hi"}}})
    assert (answer["code"], answer["data"]["content"]) == (0, "Hello")
    assert {"_created_time", "_elapsed_time"} <= set(answer["data"])
    assert server.model.requests[0][1].messages[-1]["content"] == "Hi"
    for body, words in (
        ({}, "required argument are missing: params"),
        ({"params": [1]}, "must be an object"),
        ({"params": {"sys.query": "Hi"}}, "must be an object with a value"),
        ({"params": {"nonsense": {"value": 1}}}, "does not read 'nonsense'"),
    ):
        refused = await server.post(path, body)
        assert (refused["code"], words in refused["message"]) == (101, True)


async def test_tokens_of_a_component_count(tmp_path: Path) -> None:
    replies = [Reply("a", usage=Usage(1000, 1000, 1, 0.5)) for _ in range(3)]
    async with start_app(tmp_path, replies, sections={"tenants": {"tenant": {"tokens_day": 100}}}) as server:
        path = f"/agents/{await server.agent(MODEL)}/components/LLM:0/debug"
        body = {"params": {"sys.query": {"value": "Hi"}}}
        assert (await server.post(path, body))["data"]["content"] == "a"
        assert (await server.client.post(path, json=body)).status_code == 429


async def test_a_trace_is_returned_for_its_agent_and_tenant_only(server: AppServer) -> None:
    agent_id, other_id = await server.agent(ECHO), await server.agent(ECHO, "Other")
    answer = await server.ask(agent_id)
    run_id = answer["data"]["message_id"]
    path = f"/agents/{agent_id}/logs/{run_id}"
    assert (await server.get(path)) == {"code": 0, "message": "success", "data": {}}
    await server.app_state.store.traces.put(RunRecord(run_id, answer["data"]["session_id"]), TRACE)
    assert (await server.get(path))["data"] == TRACE
    assert (await server.get(f"/agents/{other_id}/logs/{run_id}"))["data"] == {}
    assert (await server.get(f"/agents/{agent_id}/logs/{'0' * 32}"))["data"] == {}
    page = path.replace("/agents/", "/agentbots/")
    assert (await server.get(page, headers={"Authorization": await server.new_key(kind="beta")}))["data"] == {}
    for kind, question, code in (("api", path, 103), ("beta", page, 102)):
        theirs = {"Authorization": await server.new_key("other", kind=kind)}
        assert (await server.get(question, headers=theirs))["code"] == code
