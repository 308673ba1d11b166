from pathlib import Path

from tests.server.http.app_server import ECHO, FORM
from tests.server.http.native.native_client import native_agent, problem

MISSING = "0" * 32


async def test_versions_are_published_shown_and_deleted(tmp_path: Path) -> None:
    async with native_agent(tmp_path, ECHO) as (_, client):
        assert problem(await client.get("/versions/published")) == (404, "not-found")
        response = await client.post("/versions", json={"title": "One", "description": "It echoes."})
        first = response.json()
        assert response.status_code == 201
        assert (first["title"], first["description"], first["is_published"], first["is_draft"]) == (
            "One",
            "It echoes.",
            True,
            False,
        )
        second = (await client.post("/versions", json={"dsl": FORM})).json()
        assert (await client.get(f"/versions/{first['id']}")).json()["dsl"] == ECHO
        assert (await client.get("/versions/published")).json() == {**second, "dsl": FORM}
        draft = (await client.get("/versions/draft")).json()
        assert (draft["dsl"], draft["is_draft"], draft["is_published"]) == (FORM, True, False)
        assert len((await client.get("/versions")).json()["versions"]) == 4
        assert problem(await client.delete("/versions/draft")) == (409, "version-in-use")
        await client.post("/sessions", json={"version": second["id"]})
        assert problem(await client.delete(f"/versions/{second['id']}")) == (409, "version-in-use")
        assert (await client.delete(f"/versions/{first['id']}")).status_code == 204
        assert problem(await client.get(f"/versions/{first['id']}")) == (404, "not-found")
        assert problem(await client.get(f"/versions/{MISSING}")) == (404, "not-found")


async def test_an_invalid_canvas_is_not_published(tmp_path: Path) -> None:
    async with native_agent(tmp_path, ECHO) as (_, client):
        assert problem(await client.post("/versions", json={"dsl": {"nodes": []}})) == (422, "canvas-invalid")
        assert problem(await client.post("/versions", json={"dsl": "text"})) == (422, "invalid")
        assert (await client.get("/versions/draft")).json()["dsl"] == ECHO
