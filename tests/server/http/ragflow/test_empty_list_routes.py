from pathlib import Path

from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.http.ragflow.deployment_routes import EMPTY_LISTS
from tests.server.http.app_server import start_app


async def test_lists_of_what_the_server_does_not_have_are_empty(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        for path, data in EMPTY_LISTS.items():
            answer = await server.client.get(f"{path}?type=builtin&page_size=1000")
            assert answer.json() == {"code": 0, "message": "success", "data": data}, path
            assert (await server.client.get(path, headers={"Authorization": ""})).status_code == 401


async def test_pages_may_ask_for_thumbnails(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        key = await KeyRepository(server.app_state.database).create("tenant", 1, kind="beta")
        path, headers = "/thumbnails?doc_ids=1&doc_ids=2", {"Authorization": f"Bearer {key}"}
        assert (await server.client.get(path, headers=headers)).json()["data"] == {}
        assert (await server.client.get("/thumbnails")).json()["code"] == 101
        assert (await server.client.get(f"/thumbnails?doc_ids={'x,' * 101}")).json()["code"] == 101
