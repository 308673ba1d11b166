import re
from pathlib import Path

from tests.server.http.app_server import ECHO, FORM, AppServer, start_app
from tests.server.http.native.native_client import native, problem

JSON = {"Content-Type": "application/json"}
WRONG = b"""{
  "components": {
    "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["x"]}
  }
}"""
MISSING = "0" * 32
OLD_NODES = [
    {"id": id_, "data": {"label": name, "name": name, "form": form}, "position": {"x": 300 * place, "y": 0}}
    for place, (id_, name, form) in enumerate(
        [
            ("begin", "Begin", {"prologue": "Hi"}),
            ("Answer:0", "Answer", {}),
            ("Generate:0", "Generate", {"llm_id": "m", "prompt": "Be kind"}),
        ]
    )
]
OLD_WAYS = [("begin", "Answer:0"), ("Answer:0", "Generate:0"), ("Generate:0", "Answer:0")]
OLD_DRAWING = {"graph": {"nodes": OLD_NODES, "edges": [{"source": one, "target": other} for one, other in OLD_WAYS]}}
"""A canvas from before RAGFlow 0.20 that stores only the editor's graph."""


async def test_a_canvas_is_checked_with_line_and_column(server: AppServer) -> None:
    client = native(server)
    assert (await client.post("/check", json=ECHO)).json() == {"runs": True, "diagnostics": []}
    report = (await client.post("/check", content=WRONG, headers=JSON)).json()
    assert (report["runs"], [d["code"] for d in report["diagnostics"]]) == (False, ["target-unknown"])
    assert (report["diagnostics"][0]["line"], report["diagnostics"][0]["node"]) == (3, "begin")
    for document in (b"", b"{", b"[]", b"\xff\xfe", b'{"a": ' + b"[" * 100_000, b'"text"'):
        report = (await client.post("/check", content=document)).json()
        assert (report["runs"], len(report["diagnostics"])) == (False, 1), document[:9]
        assert problem(await client.post("/draw", content=document)) == (422, "canvas-invalid")


async def test_a_canvas_is_drawn_in_every_format(server: AppServer) -> None:
    client, kinds = native(server), {"mermaid": "text/vnd.mermaid; charset=utf-8", "text": "text/plain; charset=utf-8"}
    for kind, mime in {"svg": "image/svg+xml", "png": "image/png", **kinds}.items():
        drawn = await client.post(f"/draw?format={kind}", json=ECHO)
        assert (drawn.status_code, drawn.headers["content-type"], bool(drawn.content)) == (200, mime, True)
        assert drawn.content.startswith({"svg": b"<svg", "png": b"\x89PNG"}.get(kind, b""))
    assert problem(await client.post("/draw?format=gif", json=ECHO)) == (422, "invalid")
    wrong = await client.post("/draw", content=WRONG, headers=JSON)
    assert (wrong.status_code, b"(error)" in wrong.content) == (200, True)
    refused = await client.post("/draw", content=b'{"components": {}}', headers=JSON)
    assert refused.json()["error"]["details"]["diagnostics"][0]["code"] == "document-empty"
    nodes = [{"id": id_, "position": {"x": 0, "y": 300 * at}} for at, id_ in enumerate(ECHO["components"])]
    placed = {**ECHO, "graph": {"nodes": nodes, "edges": []}}
    alike = {**ECHO, "graph": {"nodes": [{**node, "position": {"x": 5, "y": 5}} for node in nodes]}}
    plain, down = [(await client.post(f"/draw{query}", json=placed)).text for query in ("", "?direction=down")]
    edited = [(await client.post("/draw?layout=editor", json=dsl)).text for dsl in (ECHO, alike, placed)]
    assert edited[:2] == [plain] * 2, "nodes stand where the editor shows them, if it does"
    assert len({plain, down, edited[2]}) == 3
    assert len(set(re.findall(r'<g data-node=[^>]+><title>[^<]*</title><rect x="([\d.]+)"', edited[2]))) == 1


async def test_the_list_says_how_agents_are_used_and_where_their_nodes_are(server: AppServer) -> None:
    agent = await server.agent(ECHO, "Echo")
    form = await server.agent({**FORM, "graph": {"nodes": 5}}, "Form")
    await native(server, agent).post("/runs", json={"query": "hello"})
    client = native(server)
    answer = (await client.get("/agents")).json()
    cards = {card["id"]: card for card in answer["agents"]}
    assert answer["total"] == len(cards) == 2
    echo = cards[agent]
    assert (echo["title"], echo["kind"], echo["sessions"], echo["is_example"]) == ("Echo", "chat", 1, False)
    assert echo["last_use_ms"] > 0
    assert (echo["nodes"], echo["edges"]) == ([[0, 0], [300, 0]], [[0, 1]])
    assert (cards[form]["sessions"], cards[form]["last_use_ms"]) == (0, 0)
    assert len((await client.get("/agents?page_size=1&page=2")).json()["agents"]) == 1
    await server.agent(OLD_DRAWING, "Old")
    old = (await client.get("/agents")).json()["agents"][0]
    assert (old["nodes"], old["edges"]) == ([[0, 0], [300, 0], [600, 0]], [[0, 1], [1, 2], [2, 1]])


async def test_a_key_is_required_and_bodies_are_limited(tmp_path: Path) -> None:
    async with start_app(tmp_path, max_body_bytes=1000) as server, native(server) as client:
        assert problem(await client.post("/check", content=b"x" * 2000)) == (413, "too-large")
        del client.headers["Authorization"]
        refused = await client.post("/check", json=ECHO)
        assert (problem(refused), refused.headers["www-authenticate"]) == ((401, "unauthorized"), "Bearer")
        assert problem(await client.post("/draw", json=ECHO)) == (401, "unauthorized")


async def test_a_version_is_shown_with_the_components_that_run(server: AppServer) -> None:
    today, old = [native(server, await server.agent(dsl)) for dsl in (ECHO, OLD_DRAWING)]
    assert (await today.get("/versions/draft?upgraded=true")).json() == (await today.get("/versions/draft")).json()
    assert (await old.get("/versions/draft")).json()["dsl"] == OLD_DRAWING
    upgraded = (await old.get("/versions/draft?upgraded=true")).json()["dsl"]
    node = upgraded["components"]["Generate:0"]["obj"]
    assert (node["component_name"], node["params"]["sys_prompt"]) == ("LLM", "Be kind")
    (await old.post("/versions", json={"dsl": upgraded})).raise_for_status()
    assert (await old.get("/versions/published?upgraded=true")).json()["dsl"] == upgraded


async def test_versions_are_published_shown_and_deleted(server: AppServer) -> None:
    client = native(server, await server.agent(ECHO))
    assert problem(await client.post("/versions", json={"dsl": {"nodes": []}})) == (422, "canvas-invalid")
    assert problem(await client.post("/versions", json={"dsl": "text"})) == (422, "invalid")
    assert (await client.get("/versions/draft")).json()["dsl"] == ECHO
    assert problem(await client.get("/versions/published")) == (404, "not-found")
    response = await client.post("/versions", json={"title": "One", "description": "It echoes."})
    first = response.json()
    expected = {"title": "One", "description": "It echoes.", "is_published": True, "is_draft": False}
    assert (response.status_code, first) == (201, first | expected)
    second = (await client.post("/versions", json={"dsl": FORM})).json()
    assert (await client.get(f"/versions/{first['id']}")).json()["dsl"] == ECHO
    assert (await client.get("/versions/published")).json() == {**second, "dsl": FORM}
    draft = (await client.get("/versions/draft")).json()
    assert (draft["dsl"], draft["is_draft"], draft["is_published"]) == (FORM, True, False)
    assert len((await client.get("/versions")).json()["versions"]) == 4
    await client.post("/sessions", json={"version": second["id"]})
    for version in ("draft", second["id"]):
        assert problem(await client.delete(f"/versions/{version}")) == (409, "version-in-use")
    assert (await client.delete(f"/versions/{first['id']}")).status_code == 204
    for version in (first["id"], MISSING):
        assert problem(await client.get(f"/versions/{version}")) == (404, "not-found")
