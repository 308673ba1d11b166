from pathlib import Path

from tests.server.http.ragflow_ui.ui_server import start_ui


async def test_lists_of_other_applications_are_empty(tmp_path: Path) -> None:
    async with start_ui(tmp_path) as server:
        assert (await server.client.get("/chats")).json()["data"] == {"chats": [], "total": 0}
        assert (await server.client.get("/searches")).json()["data"] == {"search_apps": [], "total": 0}
