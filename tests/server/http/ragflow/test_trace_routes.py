from pathlib import Path

from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.services.sessions import RunRecord, Trace
from tests.server.http.app_server import ECHO, start_app

TRACE: Trace = [
    {"component_id": "Agent:0", "trace": [{"path": "A-->t", "tool_name": "t", "arguments": {}, "result": 1}]}
]


async def test_a_trace_is_returned_for_its_agent_and_tenant_only(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id, other_id = await server.agent(ECHO), await server.agent(ECHO, "Other")
        answer = await server.ask(agent_id)
        run_id = answer["data"]["message_id"]
        path = f"/agents/{agent_id}/logs/{run_id}"
        assert (await server.client.get(path)).json() == {"code": 0, "message": "", "data": {}}
        await server.app_state.store.traces.put(RunRecord(run_id, answer["data"]["session_id"]), TRACE)
        assert (await server.client.get(path)).json()["data"] == TRACE
        assert (await server.client.get(f"/agents/{other_id}/logs/{run_id}")).json()["data"] == {}
        assert (await server.client.get(f"/agents/{agent_id}/logs/{'0' * 32}")).json()["data"] == {}
        keys = KeyRepository(server.app_state.database)
        page = path.replace("/agents/", "/agentbots/")
        beta = {"Authorization": await keys.create("tenant", 1, kind="beta")}
        assert (await server.client.get(page, headers=beta)).json()["data"] == TRACE
        for kind, question in (("api", path), ("beta", page)):
            theirs = {"Authorization": await keys.create("other", 1, kind=kind)}
            assert (await server.client.get(question, headers=theirs)).json()["code"] == 103
