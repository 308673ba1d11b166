import pytest

from ragflow_lg.adapters.ragflow_api.remote_agents import list_agents, list_mcp_servers, list_released, read_agent
from ragflow_lg.base.errors import ServiceError
from tests.fakes.recorded_ragflow import GENERATIONS, RecordedRagflow
from tests.ragflow_lg.adapters.ragflow_api.opened_api import open_api

PAINTER = "a1" * 16


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_every_generation_gives_the_same_agents(generation: str) -> None:
    async with RecordedRagflow(generation).running() as server:
        assert isinstance(server, RecordedRagflow)
        api = open_api(server)
        agents = [await read_agent(api, row) for row in await list_agents(api)]
        assert [agent.title for agent in agents] == ["Painter", "Web search"]
        assert list(agents[0].dsl["components"])[:2] == ["begin", "StringTransform:Wish"]
        versions = await list_released(api, PAINTER)
        assert [version.id for version in versions] == ([] if generation == "0.24" else ["f1" * 16])


async def test_mcp_servers_come_without_secrets(ragflow: RecordedRagflow) -> None:
    servers = await list_mcp_servers(open_api(ragflow))
    assert servers is not None
    (server,) = servers
    assert (server.name, server.tools, server.secrets) == ("Weather", ("forecast",), ("authorization_token",))
    assert "verysecret" not in repr(server)


async def test_an_old_server_does_not_list_mcp_servers_for_a_key() -> None:
    async with RecordedRagflow("0.24").running() as server:
        assert isinstance(server, RecordedRagflow)
        assert await list_mcp_servers(open_api(server)) is None


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"id": "../../etc"}, "not an id"),
        ({"id": "x" * 300}, "not an id"),
        ({"id": 7, "dsl": {}}, "no "),
        ({"id": PAINTER, "dsl": "{broken"}, "no canvas"),
        ({"id": PAINTER, "dsl": []}, "no canvas"),
    ],
)
async def test_strange_agents_are_refused(ragflow: RecordedRagflow, row: dict[str, object], problem: str) -> None:
    ragflow.set(f"/api/v1/agents/{PAINTER}", row)
    with pytest.raises(ServiceError, match=problem):
        await read_agent(open_api(ragflow), row)
