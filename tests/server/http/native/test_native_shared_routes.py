import logging
import re
from pathlib import Path

import pytest
from sqlalchemy import text, update

from ragflow_lg.server.database.tables import MessageRow
from ragflow_lg.server.observability.logs import open_audit
from tests.fakes.knowledge import FakeKnowledge, chunk
from tests.fakes.services import Reply
from tests.server.http.app_server import CITING, ECHO, MODEL, AppServer, canvas, start_app
from tests.server.http.native.native_client import PREFIX, native, native_agent, play_one, problem

TOKEN = re.compile(r"/shared/(share-[A-Za-z0-9_-]{32})")


def read_path(url: str) -> str:
    """Return the path of what the page of a link reads."""
    return f"{PREFIX}{url}"


async def test_a_link_shows_messages_and_nothing_else_until_it_is_revoked(server: AppServer) -> None:
    server.model.replies += [Reply("<think>Secret thought</think>Hello **Ada**")]
    client, run = await play_one(server, MODEL, query="<img src=x onerror=alert(1)>")
    session = f"/sessions/{run['session_id']}"
    assert (await client.get(session)).json()["shared"] is False
    assert (await client.get("/sessions")).json()["shareable"] is True
    made = await client.post(f"{session}/share")
    assert (made.status_code, list(made.json())) == (201, ["url"])
    url = made.json()["url"]
    assert TOKEN.fullmatch(url)
    shown = (await client.get(session)).json()
    assert shown["shared"] is True
    assert url.rpartition("/")[2] not in str(shown)
    guest = server.stranger()
    read = await guest.get(read_path(url))
    assert read.headers["cache-control"] == "no-store"
    whole = read.json()
    assert set(whole) == {"title", "name", "messages"}
    assert [(each["role"], each["content"]) for each in whole["messages"]] == [
        ("user", "<img src=x onerror=alert(1)>"),
        ("assistant", "Hello **Ada**"),
    ]
    assert {name for each in whole["messages"] for name in each} == {
        *("role", "content", "is_form", "status"),
        *("reference", "create_ms"),
    }
    page = await guest.get(url)
    headers = {name: page.headers[name] for name in ("cache-control", "x-robots-tag", "referrer-policy")}
    assert headers == {"cache-control": "no-store", "x-robots-tag": "noindex", "referrer-policy": "no-referrer"}
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "unsafe" not in page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    etag = page.headers["etag"]
    replaced = (await client.post(f"{session}/share")).json()["url"]
    assert problem(await guest.get(read_path(url))) == (404, "not-found")
    assert (await guest.get(read_path(replaced))).json() == whole
    assert (await client.delete(f"{session}/share")).status_code == 204
    for gone in (url, replaced, f"/shared/share-{'x' * 32}", "/shared/x"):
        assert problem(await guest.get(read_path(gone))) == (404, "not-found")
        page = await guest.get(gone, headers={"if-none-match": etag})
        assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert (await client.get(session)).json()["shared"] is False
    last = (await client.post(f"{session}/share")).json()["url"]
    await client.delete(session)
    assert problem(await guest.get(read_path(last))) == (404, "not-found")


async def test_a_link_shows_names_of_sources_without_their_texts_and_no_thinking_that_broke_off(tmp_path: Path) -> None:
    knowledge = FakeKnowledge(chunks=[chunk("c-tea", "Secret passage.")])
    replies = [Reply("Tea [ID:0]."), Reply("Yes.<think>Secret thought")]
    async with native_agent(tmp_path, CITING, replies, knowledge=knowledge) as (server, client):
        run = (await client.post("/runs", json={"query": "tea"})).json()
        assert "Secret passage" in str(run["reference"])
        await client.post("/runs", json={"query": "more", "session_id": run["session_id"]})
        url = (await client.post(f"/sessions/{run['session_id']}/share")).json()["url"]
        read = await server.stranger().get(read_path(url))
    assert "Secret" not in read.text
    _, cited, _, last = read.json()["messages"]
    (source,) = run["reference"]
    known = {"citation_id": source["citation_id"], "document_name": source["document_name"]}
    assert (cited["content"], cited["reference"]) == (run["answer"], [known])
    assert last["content"] == "Yes."


SECRET_FORM = canvas(
    ("begin", "Begin", {"inputs": {"pin": {"name": "Pin", "type": "line", "optional": True}}}, ["UserFillUp:0"]),
    ("UserFillUp:0", "UserFillUp", {"inputs": {"word": {"name": "Password", "type": "line"}}}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["Thanks"]}, []),
)


async def test_a_link_leaves_out_what_forms_were_answered_with(server: AppServer) -> None:
    client = native(server, await server.agent(SECRET_FORM))
    run = (await client.post("/runs", json={"query": "", "inputs": {"pin": "geheim-1"}})).json()
    answered = (await client.post(f"/runs/{run['id']}/resume", json={"fields": {"word": "geheim-2"}})).json()
    assert answered["answer"] == "Thanks"
    session = run["session_id"]
    assert "Password: geheim-2" in (await client.get(f"/sessions/{session}")).text
    asked = (await client.post("/runs", json={"query": "Note: geheim-3", "session_id": session})).json()
    copy = (await client.post(f"/runs/{asked['id']}/fork", json={})).json()
    guest = server.stranger()
    for id_ in (session, copy["session_id"]):
        await client.patch(f"/sessions/{id_}", json={"name": ""})
        url = (await client.post(f"/sessions/{id_}/share")).json()["url"]
        read = await guest.get(read_path(url))
        said = [(each["content"], each["is_form"]) for each in read.json()["messages"] if each["role"] == "user"]
        assert said == [("", True), ("", True), ("Note: geheim-3", False)]
        assert read.json()["name"] == "Note: geheim-3"
        assert "geheim-1" not in read.text
        assert "geheim-2" not in read.text
        async with server.app_state.database.writing() as db:
            await db.execute(update(MessageRow).values(is_form=None))  # of a server that did not know
        assert "geheim" not in (await guest.get(read_path(url))).text
        async with server.app_state.database.writing() as db:
            await db.execute(update(MessageRow).where(MessageRow.run_id == asked["id"]).values(is_form=False))
            await db.execute(update(MessageRow).where(MessageRow.run_id != asked["id"]).values(is_form=True))


async def test_a_link_says_which_answers_are_not_complete(server: AppServer) -> None:
    server.model.replies += [Reply("partial", chunks=("par", "tial"), error="password=geheim"), Reply("Whole")]
    client = native(server, await server.agent(MODEL))
    await client.post("/runs", json={"query": "q"})
    run = (await client.get("/runs")).json()["runs"][0]
    await client.post("/runs", json={"query": "more", "session_id": run["session_id"]})
    url = (await client.post(f"/sessions/{run['session_id']}/share")).json()["url"]
    read = await server.stranger().get(read_path(url))
    assert [each["status"] for each in read.json()["messages"]] == ["", "failed", "", ""]
    assert "geheim" not in read.text


async def test_a_copy_is_shared_under_its_question(server: AppServer) -> None:
    client, run = await play_one(server, ECHO, query="What is *it*?")
    copy = (await client.post(f"/runs/{run['id']}/rerun", json={"node": "Message:0"})).json()
    assert (await client.get(f"/sessions/{copy['session_id']}")).json()["name"].startswith("↳ ")
    url = (await client.post(f"/sessions/{copy['session_id']}/share")).json()["url"]
    assert (await server.stranger().get(read_path(url))).json()["name"] == "What is *it*?"


async def test_a_database_that_fails_is_not_described_to_others(server: AppServer) -> None:
    url, database = f"/shared/share-{'x' * 32}", server.app_state.database
    await database.execute(text("ALTER TABLE sessions RENAME TO other_sessions"))
    try:
        page, read = [await server.stranger().get(each) for each in (url, read_path(url))]
    finally:
        await database.execute(text("ALTER TABLE other_sessions RENAME TO sessions"))
    assert (page.status_code, page.headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert problem(read) == (503, "unavailable")
    assert read.json()["error"]["message"] == "Internal server error; see the server log."


async def test_only_keys_of_the_tenant_make_and_revoke_links(server: AppServer) -> None:
    client, run = await play_one(server, ECHO)
    path = f"/sessions/{run['session_id']}/share"
    url = (await client.post(path)).json()["url"]
    page = await server.page()
    strange = {"Authorization": f"Bearer {await server.new_key('stranger')}"}
    other = native(server, await server.agent(ECHO, "Other"))
    for method in ("POST", "DELETE"):
        assert problem(await client.request(method, path, headers=page)) == (401, "unauthorized")
        assert problem(await client.request(method, path, headers=strange)) == (404, "not-found")
        assert problem(await other.request(method, path)) == (404, "not-found")
    assert (await server.stranger().get(read_path(url))).status_code == 200


async def test_a_copy_of_a_session_has_no_link(server: AppServer) -> None:
    client, run = await play_one(server, ECHO)
    await client.post(f"/sessions/{run['session_id']}/share")
    copy = (await client.post(f"/runs/{run['id']}/fork", json={})).json()
    assert (await client.get(f"/sessions/{copy['session_id']}")).json()["shared"] is False


async def test_no_log_contains_the_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ragflow_lg")
    audit = tmp_path / "audit.jsonl"
    with open_audit(audit):
        async with native_agent(tmp_path, ECHO, requests_per_minute_address=20) as (server, client):
            run = (await client.post("/runs", json={"query": "hi"})).json()
            url = (await client.post(f"/sessions/{run['session_id']}/share")).json()["url"]
            guest = server.stranger()
            for mangled in ("share%252D", "xshare-", "_share-", "%20share-", "share-%20"):
                await guest.get(url.replace("share-", mangled))
            statuses = [(await guest.get(each)).status_code for each in (read_path(url), url) * 20]
    assert {200, 429} <= set(statuses)
    assert "session.shared" in audit.read_text()
    secret = url.rpartition("-")[2]
    assert f"GET {PREFIX}/shared/*** 200" in caplog.text
    assert secret not in audit.read_text() + caplog.text


async def test_an_operator_forbids_links(tmp_path: Path) -> None:
    async with native_agent(tmp_path, ECHO) as (server, client):
        run = (await client.post("/runs", json={"query": "hi"})).json()
        path = f"{PREFIX}/agents/{run['agent_id']}/sessions/{run['session_id']}/share"
        url = (await client.post(f"/sessions/{run['session_id']}/share")).json()["url"]
        headers = {"Authorization": f"Bearer {server.key}"}
    async with start_app(tmp_path, shared_links=False) as server:
        guest = server.stranger()
        assert problem(await guest.get(read_path(url))) == (404, "not-found")
        assert (await guest.get(url)).status_code == 404
        assert problem(await guest.post(path, headers=headers)) == (403, "forbidden")
        assert (await guest.delete(path, headers=headers)).status_code == 204
        listed = (await guest.get(path.split("/sessions")[0] + "/sessions", headers=headers)).json()
        assert (listed["total"], listed["shareable"]) == (1, False)
