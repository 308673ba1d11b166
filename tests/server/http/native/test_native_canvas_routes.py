import re
from pathlib import Path

import orjson
import pytest

from tests.server.http.app_server import ECHO, FORM, start_app
from tests.server.http.native.native_client import native, native_agent, problem

JSON = {"Content-Type": "application/json"}
WRONG = b"""{
  "components": {
    "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["x"]}
  }
}"""
MISSING = "0" * 32


async def test_a_canvas_is_checked_with_line_and_column(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server, native(server) as client:
        assert (await client.post("/check", json=ECHO)).json() == {"runs": True, "diagnostics": []}
        report = (await client.post("/check", content=WRONG, headers=JSON)).json()
        assert (report["runs"], [d["code"] for d in report["diagnostics"]]) == (False, ["target-unknown"])
        assert (report["diagnostics"][0]["line"], report["diagnostics"][0]["node"]) == (3, "begin")


@pytest.mark.parametrize("document", [b"", b"{", b"[]", b"\xff\xfe", b'{"a": ' + b"[" * 100_000, b'"text"'])
async def test_invalid_documents_have_one_diagnostic(tmp_path: Path, document: bytes) -> None:
    async with start_app(tmp_path) as server, native(server) as client:
        report = (await client.post("/check", content=document)).json()
        assert (report["runs"], len(report["diagnostics"])) == (False, 1)
        assert problem(await client.post("/draw", content=document)) == (422, "canvas-invalid")


async def test_nodes_stand_where_the_editor_shows_them_if_the_canvas_says_so(tmp_path: Path) -> None:
    nodes = [{"id": id_, "position": {"x": 0, "y": 300 * at}} for at, id_ in enumerate(ECHO["components"])]
    async with start_app(tmp_path) as server, native(server) as client:
        for document in (
            ECHO,
            {**ECHO, "graph": {"nodes": [{**node, "position": {"x": 5, "y": 5}} for node in nodes]}},
        ):
            drawn = await client.post("/draw?layout=editor", json=document)
            assert drawn.content == (await client.post("/draw", json=document)).content
        placed = {**ECHO, "graph": {"nodes": nodes, "edges": []}}
        picture = (await client.post("/draw?layout=editor", json=placed)).text
        assert picture != (await client.post("/draw", json=placed)).text
        assert len(set(re.findall(r'<g data-node=[^>]+><title>[^<]*</title><rect x="([\d.]+)"', picture))) == 1


async def test_a_canvas_is_drawn_in_every_format(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server, native(server) as client:
        for kind, begins, mime in (
            ("svg", b"<svg", "image/svg+xml"),
            ("png", b"\x89PNG", "image/png"),
            ("mermaid", b"", "text/vnd.mermaid; charset=utf-8"),
            ("text", b"", "text/plain; charset=utf-8"),
        ):
            drawn = await client.post(f"/draw?format={kind}", content=orjson.dumps(ECHO))
            assert (drawn.status_code, drawn.headers["content-type"]) == (200, mime)
            assert drawn.content.startswith(begins)
            assert drawn.content
        assert problem(await client.post("/draw?format=gif", json=ECHO)) == (422, "invalid")
        down = await client.post("/draw?direction=down&theme=dark", content=orjson.dumps(ECHO))
        assert down.content != (await client.post("/draw", content=orjson.dumps(ECHO))).content
        wrong = await client.post("/draw", content=WRONG, headers=JSON)
        assert (wrong.status_code, b"(error)" in wrong.content) == (200, True)
        refused = await client.post("/draw", content=b'{"components": {}}', headers=JSON)
        assert refused.json()["error"]["details"]["diagnostics"][0]["code"] == "document-empty"


async def test_a_key_is_required_and_bodies_are_limited(tmp_path: Path) -> None:
    async with start_app(tmp_path, max_body_bytes=1000) as server, native(server) as client:
        assert problem(await client.post("/check", content=b"x" * 2000)) == (413, "too-large")
        del client.headers["Authorization"]
        refused = await client.post("/check", json=ECHO)
        assert problem(refused) == (401, "unauthorized")
        assert refused.headers["www-authenticate"] == "Bearer"
        assert problem(await client.post("/draw", json=ECHO)) == (401, "unauthorized")


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
