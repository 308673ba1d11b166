from __future__ import annotations

from pathlib import Path

import pytest

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.agents.agent_versions import build_version, check_draft, delete_version, find_version, publish
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.settings import Settings
from tests.server.http.app_server import ECHO, FORM, start_app


@pytest.mark.parametrize(
    ("dsl", "problem"),
    [
        ("{", "not JSON"),
        ([], "JSON object"),
        ({"components": {"begin": {"obj": {"component_name": "Nothing", "params": {}}}}}, "Nothing"),
        ({"components": {}, "more": 2**70}, "cannot be stored"),
    ],
)
async def test_an_invalid_canvas_is_refused_as_draft(dsl: object, problem: str) -> None:
    with pytest.raises(RequestError, match=problem) as caught:
        await check_draft(Settings(), dsl)
    assert (caught.value.number, caught.value.reason) == (101, "canvas-invalid")


async def test_a_version_is_found_by_id_or_role(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agents = AgentRepository(server.app_state.database, "tenant")
        agent = await agents.get(await server.agent(ECHO))
        assert agent is not None
        database = server.app_state.database
        draft = await find_version(database, agent, "draft")
        assert (await find_version(database, agent, "")).id == draft.id == agent.version_id
        with pytest.raises(RequestError, match="no published version"):
            await find_version(database, agent, "published")
        with pytest.raises(RequestError, match="draft"):
            await delete_version(server.app_state, agent, draft)
        first = await publish(server.app_state, agent)
        second = await publish(server.app_state, agent, title="Two", dsl=FORM)
        assert {(await find_version(database, agent, name)).dsl for name in ("", "published", second.id)} == {
            second.dsl
        }
        assert (await find_version(database, agent, first.id)).dsl == first.dsl != second.dsl
        agent = await agents.get(agent.id)
        assert agent is not None
        assert (await find_version(database, agent, "draft")).dsl == second.dsl
        await delete_version(server.app_state, agent, first)
        with pytest.raises(RequestError, match="Version not found"):
            await find_version(database, agent, first.id)


def test_a_version_row_has_its_defaults() -> None:
    row = build_version("v", "a", "T", "{}", 7, is_released=True)
    assert (row.id, row.agent_id, row.is_released, row.create_ms, row.description) == ("v", "a", True, 7, "")


async def test_of_a_template_only_its_canvas_is_stored() -> None:
    template = {"title": "Echo", "description": "", "dsl": ECHO}
    assert await check_draft(Settings(), template) == await check_draft(Settings(), ECHO)
