import json
from pathlib import Path

from tests.server.http.app_server import ECHO, start_app


async def test_templates_are_valid_agents(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "echo.json").write_text(json.dumps({"title": "Echo", "dsl": ECHO}))
    async with start_app(tmp_path, templates=tmp_path / "own") as server:
        listed = (await server.client.get("/agents/templates")).json()
        assert listed["code"] == 0
        for template in listed["data"]:
            await server.agent(template["dsl"], template["title"]["en"])
        assert listed["data"][-1]["title"] == {"en": "Echo"}


async def test_default_prompts_are_returned(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        answer = (await server.client.get("/agents/prompts")).json()["data"]
        assert list(answer) == ["task_analysis", "plan_generation", "reflection", "citation_guidelines"]
        assert all(isinstance(text, str) and text for text in answer.values())
