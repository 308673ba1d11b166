from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.server.database.key_repository import KeyRepository
from tests.server.http.app_server import ECHO, start_app


async def test_tags_are_set_and_counted(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        one, two = await server.agent(ECHO, "A"), await server.agent(ECHO, "B")
        answer = await server.client.put(f"/agents/{one}/tags", json={"tags": ["shop", "Mail", "mail", "a,b", " ", 7]})
        assert answer.json() == {"code": 0, "message": "", "data": True}
        await server.client.put(f"/agents/{two}/tags", json={"tags": "shop, " + "x" * 70})
        listed = (await server.client.get("/agents/tags")).json()["data"]
        assert listed == [
            {"tag": "shop", "count": 2},
            {"tag": "Mail", "count": 1},
            {"tag": "a b", "count": 1},
            {"tag": "x" * 64, "count": 1},
        ]
        assert (await server.client.get("/agents/tags?canvas_category=dataflow_canvas")).json()["data"] == []
        data = (await server.client.get(f"/agents?id={one}")).json()["data"]["canvas"]
        assert data[0]["tags"] == "shop,Mail,a b"
        for query, titles in (("shop", "AB"), ("mail", "A"), ("a b,x", "A"), ("sho", ""), ("%", ""), ("a,b", "")):
            frames = (
                await server.client.get("/agents", params={"tags": query, "orderby": "title", "desc": "false"})
            ).json()
            assert "".join(agent["title"] for agent in frames["data"]["canvas"]) == titles, query
        slip = await server.client.put(f"/agents/{one}/tags", json={"tag": ["shop"]})
        assert (slip.json()["code"], slip.json()["message"]) == (101, "required argument are missing: tags; ")
        await server.client.put(f"/agents/{one}/tags", json={})
        assert len((await server.client.get("/agents/tags")).json()["data"]) == 2
        other = {"Authorization": await KeyRepository(server.app_state.database).create("other", 1)}
        assert (await server.client.put(f"/agents/{one}/tags", json={"tags": "x"}, headers=other)).json()["code"] == 103
        assert (await server.client.get("/agents/tags", headers=other)).json()["data"] == []


@pytest.mark.parametrize("tags", [7, {"a": 1}, [f"{n:064}" for n in range(9)]])
async def test_invalid_tags_are_refused(tmp_path: Path, tags: Any) -> None:
    async with start_app(tmp_path) as server:
        answer = await server.client.put(f"/agents/{await server.agent(ECHO)}/tags", json={"tags": tags})
        assert answer.json()["code"] == 101
