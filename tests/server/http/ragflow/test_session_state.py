from pathlib import Path
from typing import Any

from tests.server.http.app_server import ECHO, FORM, start_app


async def test_a_session_shows_its_state(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent = await server.agent(ECHO)
        session = await server.session(agent, user_id="anna")
        fresh = (await server.client.get(f"/agents/{agent}/sessions/{session}")).json()["data"]["dsl"]
        assert fresh["components"] == ECHO["components"]
        await server.ask(agent, "hi", session_id=session)
        shown = (await server.client.get(f"/agents/{agent}/sessions/{session}")).json()["data"]["dsl"]
        assert [entry[0] for entry in shown["history"]] == ["user", "assistant"]
        assert shown["globals"]["sys.query"] == "hi"
        assert shown["path"][0] == "begin"
        outputs = shown["components"]["Message:0"]["obj"]["params"]["outputs"]
        assert outputs["content"]["value"] == "You said hi"
        stored = (await server.client.get(f"/agents/{agent}")).json()["data"]["dsl"]
        assert stored["components"] == ECHO["components"]


async def test_a_waiting_session_begins_its_path_with_the_form(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent = await server.agent(FORM)
        session = await server.session(agent)
        await server.ask(agent, "hi", session_id=session)
        shown = (await server.client.get(f"/agents/{agent}/sessions/{session}")).json()["data"]["dsl"]
        assert shown["path"] == ["UserFillUp:0"]


async def test_a_canvas_that_cannot_run_is_shown_without_state(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent = await server.agent(ECHO)
        session = await server.session(agent)
        broken: dict[str, Any] = {
            "components": {**ECHO["components"], "x": {"obj": {"component_name": "Gone", "params": {}}}}
        }
        await server.client.put(f"/agents/{agent}", json={"dsl": broken})
        answer = (await server.client.get(f"/agents/{agent}/sessions/{session}")).json()
        assert answer["code"] == 0
        assert answer["data"]["dsl"]["components"] == ECHO["components"]
