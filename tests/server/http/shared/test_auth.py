import base64
import hashlib
import hmac
import re
import secrets
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from msgspec import Struct
from starlette.requests import Request

from ragflow_lg.server.agents.file_store import FILE_LIMITS
from ragflow_lg.server.agents.tenant_services import tenant_services
from ragflow_lg.server.database.key_repository import KeyRepository
from tests.fakes.memories import FakeMemories
from tests.server.agents.test_tenant_services import RUNS, with_files
from tests.server.http.app_server import ECHO, FORM, AppServer, frames, says, start_app

REFUSED: dict[str, Any] = {"code": 401, "message": "<Unauthorized '401: Unauthorized'>", "data": None}


async def test_a_key_is_accepted_with_or_without_its_scheme(server: AppServer) -> None:
    beta, revoked = await server.new_key(kind="beta"), await server.new_key()
    await KeyRepository(server.app_state.database).revoke(revoked, 2)
    wrong = f"Basic {server.key}", "Bearer", "", beta, revoked
    for header, status in {f"bEaReR {server.key}": 200, server.key: 200, **dict.fromkeys(wrong, 401)}.items():
        answer = await server.client.get("/agents", headers={"Authorization": header})
        assert answer.status_code == status, header
        assert status == 200 or answer.json() == REFUSED


async def test_key_and_header_select_the_response_shapes(server: AppServer) -> None:
    old = {"Authorization": await server.new_key(compat="0.24")}
    created = await server.client.post("/agents", json={"title": "A", "dsl": ECHO}, headers=old)
    assert created.json()["data"] is True
    cases: list[tuple[dict[str, str], type]] = [
        ({}, dict),
        (old, list),
        ({"X-RAGFlow-Compat": "0.24"}, list),
        ({**old, "X-RAGFlow-Compat": "current"}, dict),
    ]
    for headers, shape in cases:
        assert isinstance((await server.get("/agents", headers=headers))["data"], shape)


def request(app: Any, header: str) -> Request:
    headers = [(b"authorization", header.encode("latin-1"))] if header else []
    return Request(
        cast("Any", {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": headers, "app": app})
    )


VISITOR = "X-RAGFlow-Visitor"
READS = says("Files: {sys.files}\nBefore: {sys.history}")
READING = (
    "/agents/download?id={}",
    "/agents/attachments/{}/download",
    "/agents/attachments/{}/preview",
    "/document/download/{}",
    "/documents/artifact/{}.txt",
)


class Visitor(Struct):
    """A browser that has opened the page of an agent; without a secret, one with RAGFlow's own page."""

    server: AppServer
    agent: str
    headers: dict[str, str]

    async def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = self.headers | options.pop("headers", {})
        return await self.server.client.request(method, path, headers=headers, **options)

    async def upload(self, content: bytes = b"text", name: str = "passport.txt") -> httpx.Response:
        return await self.send("POST", f"/agents/{self.agent}/upload", files={"file": (name, content, "text/plain")})

    async def file(self, content: bytes = b"text") -> dict[str, Any]:
        return (await self.upload(content)).json()["data"]

    async def ask(self, query: str = "Hi", **body: Any) -> dict[str, Any]:
        path = f"/agentbots/{self.agent}/completions"
        return (await self.send("POST", path, json={"query": query, "stream": False, **body})).json()

    async def says(self, query: str = "Hi", **body: Any) -> str:
        return (await self.ask(query, **body))["data"]["data"]["content"]

    async def native(self, method: str, path: str) -> httpx.Response:
        return await self.send(method, f"{self.server.url}/native/v1/{path}")

    async def listed(self) -> list[str]:
        return [file["id"] for file in (await self.native("GET", "files")).json()["files"]]


class Shop(Struct):
    server: AppServer
    agent: str
    key: str

    async def visit(self, key: str = "") -> Visitor:
        headers = {"Authorization": f"Bearer {key or self.key}"}
        opened = await self.server.client.get(f"/agentbots/{self.agent}/inputs", headers=headers)
        return Visitor(self.server, self.agent, {**headers, VISITOR: opened.headers[VISITOR]})

    def visit_without_secret(self) -> Visitor:
        return Visitor(self.server, self.agent, {"Authorization": f"Bearer {self.key}"})

    async def other_key(self) -> str:
        return await self.server.new_key(kind="beta")


async def open_shop(server: AppServer, dsl: dict[str, Any] = READS) -> Shop:
    return Shop(server, await server.agent(dsl), await server.new_key(kind="beta"))


async def test_every_visitor_gets_a_secret_once(tmp_path: Path) -> None:
    async with start_app(tmp_path, allow_origins=("https://shop.example",)) as server:
        shop = await open_shop(server)
        one, two = await shop.visit(), await shop.visit()
        assert one.headers[VISITOR] != two.headers[VISITOR]
        again = await one.send("GET", f"/agentbots/{shop.agent}/inputs", headers={"Origin": "https://shop.example"})
        assert VISITOR not in again.headers
        assert VISITOR in again.headers["access-control-expose-headers"].split(", ")
        for odd in ("guess", "a" * 44, "../" * 14 + "a", "a" * 43, one.headers[VISITOR][::-1]):
            refused = await one.send("GET", f"/agentbots/{shop.agent}/inputs", headers={VISITOR: odd})
            assert "must be the secret that" in refused.json()["message"]


async def test_made_up_secrets_do_not_fill_the_page(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FILE_LIMITS, "max_page_files", 2)
    shop = await open_shop(server)
    digest = hashlib.sha256(shop.key.encode()).hexdigest()  # what visitors can compute
    for signer in ("", digest, f"visitor\0\0{digest}"):
        random = secrets.token_bytes(16)
        signed = random + hmac.digest(signer.encode(), random, "sha256")[:16]
        made_up = base64.urlsafe_b64encode(signed).rstrip(b"=").decode()
        visitor = Visitor(shop.server, shop.agent, {"Authorization": f"Bearer {shop.key}", VISITOR: made_up})
        assert "must be the secret that" in (await visitor.upload()).json()["message"]
    other = await shop.visit(await shop.other_key())
    stolen = Visitor(shop.server, shop.agent, {**other.headers, "Authorization": f"Bearer {shop.key}"})
    assert "must be the secret that" in (await stolen.upload()).json()["message"]
    honest = await shop.visit()
    assert [(await honest.upload()).status_code for _ in range(2)] == [200, 200]


async def test_visitors_do_not_reach_uploads_of_others(server: AppServer) -> None:
    shop = await open_shop(server)
    one = await shop.visit()
    file = await one.file(b"VISITOR-1")
    others = [await shop.visit(), shop.visit_without_secret(), await shop.visit(await shop.other_key())]
    for other in others:
        assert await other.listed() == []
        for path in READING:
            assert (await other.send("GET", path.format(file["id"]))).json()["code"] == 102, path
        assert "VISITOR-1" not in str(await other.ask(files=[file]))
        assert "VISITOR-1" not in str(await other.ask(files=[{"file_id": file["id"], "name": "x", "id": file["id"]}]))
        assert (await other.native("DELETE", f"files/{file['id']}")).status_code == 404
    assert await one.listed() == [file["id"]]
    for path in READING:
        assert (await one.send("GET", path.format(file["id"]))).text == "VISITOR-1"
    assert "VISITOR-1" in await one.says(files=[file])
    assert ((await one.native("DELETE", f"files/{file['id']}")).status_code, await one.listed()) == (204, [])


async def test_without_a_secret_only_who_knows_the_id_reads_an_upload(server: AppServer) -> None:
    shop = await open_shop(server)
    plain = shop.visit_without_secret()
    file = await plain.file(b"text of a visitor")
    assert "text of a visitor" in await plain.says(files=[file])
    assert (await plain.send("GET", READING[0].format(file["id"]))).text == "text of a visitor"
    assert (await plain.listed(), (await plain.native("DELETE", f"files/{file['id']}")).status_code) == ([], 404)
    assert (await (await shop.visit()).send("GET", READING[0].format(file["id"]))).json()["code"] == 102


async def test_visitors_do_not_go_on_with_sessions_of_others(server: AppServer) -> None:
    shop = await open_shop(server)
    one, two, plain = await shop.visit(), await shop.visit(), shop.visit_without_secret()
    mine, shared = (await one.ask("my secret"))["data"], (await plain.ask("my other secret"))["data"]
    owners = await shop.server.session(shop.agent)
    for other, session in ((two, mine), (plain, mine), (two, shared), (one, shared), (two, {"session_id": owners})):
        refused = await other.ask(session_id=session["session_id"])
        assert (refused["code"], refused["message"]) == (102, "Session not found!")
    for visitor, session in ((one, mine), (plain, shared)):
        assert "secret" in await visitor.says(session_id=session["session_id"])
    whole = await shop.server.ask(shop.agent, session_id=mine["session_id"])
    assert "my secret" in whole["data"]["data"]["content"]  # the owner reads all sessions


async def test_visitors_do_not_follow_or_answer_turns_of_others(server: AppServer) -> None:
    shop = await open_shop(server, FORM)
    one, two, plain = await shop.visit(), await shop.visit(), shop.visit_without_secret()
    path = f"/agentbots/{shop.agent}/completions"
    form = frames((await one.send("POST", path, json={"query": "Hi"})).text)[0]
    resume = {"headers": {"Last-Event-ID": f"{form['message_id']}:0"}, "json": {"query": "Hi"}}
    answer: dict[str, Any] = {"query": "", "session_id": form["session_id"], "inputs": {"size": {"value": 4}}}
    for other in (two, plain):
        assert "Which size?" not in (await other.send("POST", path, **resume)).text
        assert (await other.ask(**answer))["message"] == "Session not found!"
    assert "Which size?" in (await one.send("POST", path, **resume)).text
    assert await one.says(**answer) == "Size 4"


async def test_artifacts_belong_to_the_session_that_made_them(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        shop = await open_shop(server, RUNS)
        with_files(server)
        one, two, plain = await shop.visit(), await shop.visit(), shop.visit_without_secret()
        made = (await one.ask())["data"]
        url = re.findall(r"\((/api/v1/documents/artifact/[0-9a-f]{32}\.csv)\)", made["data"]["content"])[0]
        owned = await shop.server.ask(shop.agent, session_id=made["session_id"])  # by the owner, in the same session
        again = re.findall(r"\((/api/v1/documents/artifact/[0-9a-f]{32}\.csv)\)", owned["data"]["data"]["content"])[0]
        foreign = await shop.server.ask(shop.agent)
        hidden = re.findall(r"\((/api/v1/documents/artifact/[0-9a-f]{32}\.csv)\)", foreign["data"]["data"]["content"])[
            0
        ]
        read = {
            (name, each): (await visitor.send("GET", shop.server.url + each)).text == "a,b\n1,2\n"
            for name, visitor in (("one", one), ("two", two), ("plain", plain))
            for each in (url, again, hidden)
        }
        assert [place for place, is_read in read.items() if is_read] == [("one", url), ("one", again)]
        other = tenant_services(shop.server.app_state, "tenant", shop.agent, visitor="v" * 32, is_page=True)
        assert await other.artifacts.find(url) is None


async def test_visitors_read_those_files_of_the_owner_that_the_canvas_names(server: AppServer) -> None:
    shop = await open_shop(server)
    files = [
        (await shop.server.client.post(f"/agents/{shop.agent}/upload", files={"file": (name, b"prices")})).json()
        for name in ("prices.txt", "internal.txt")
    ]
    shown, hidden = (file["data"]["id"] for file in files)
    dsl = says(f"[Prices](/api/v1/agents/download?id={shown}) {{sys.files}}")
    await shop.server.client.put(f"/agents/{shop.agent}", json={"title": "Helper", "dsl": dsl})
    for visitor in (await shop.visit(), shop.visit_without_secret()):
        assert (await visitor.send("GET", READING[0].format(shown))).text == "prices"
        assert (await visitor.send("GET", READING[0].format(hidden))).json()["code"] == 102
        assert "prices" in (await visitor.says(files=[files[0]["data"]])).partition(")")[2]
        assert "prices" not in str(await visitor.ask(files=[files[1]["data"]])).partition(")")[2]


@pytest.mark.parametrize(
    "limits", [{"max_visitor_files": 2, "max_page_files": 3}, {"max_visitor_bytes": 8, "max_page_bytes": 12}]
)
async def test_a_visitor_leaves_room(
    server: AppServer, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]
) -> None:
    for name, limit in limits.items():
        monkeypatch.setitem(FILE_LIMITS, name, limit)
    shop = await open_shop(server)
    one, two, plain = await shop.visit(), await shop.visit(), shop.visit_without_secret()

    async def fill(visitor: Visitor, times: int) -> list[int]:
        return [(await visitor.upload()).status_code for _ in range(times)]

    assert await fill(one, 3) == [200, 200, 429]
    assert "The visitor has used up" in (await one.upload()).json()["message"]
    assert await fill(two, 2) == [200, 429]  # the page is full
    assert await fill(plain, 4) == [200, 200, 200, 429]


async def test_memories_of_a_visitor_are_not_those_of_another_with_the_same_name(tmp_path: Path) -> None:
    memories = FakeMemories()
    async with start_app(tmp_path, memories=memories) as server:
        shop = await open_shop(server, ECHO)
        one, two, plain = await shop.visit(), await shop.visit(), shop.visit_without_secret()
        for visitor in (one, two, plain):
            await visitor.ask(user_id="anna")
        await shop.server.ask(shop.agent, user_id="anna")
        assert (len(set(memories.realms)), memories.realms[2:]) == (4, [f"page {shop.agent}/", ""])
