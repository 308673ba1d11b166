import base64
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.server.agents.file_store import FILE_LIMITS
from ragflow_lg.server.http.app import make_app
from tests.fakes.images import PNG
from tests.server.http.app_server import FORM, AppServer, says, start_app

MISSING = "0" * 32
PNG_URI = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
READS = says("{sys.files} {begin@file}", {"mode": "task", "inputs": {"file": {"name": "File", "type": "file"}}})
SHOWS = says("{sys.files}")


async def upload(server: AppServer, agent_id: str, *files: tuple[str, bytes, str], **values: Any) -> Any:
    sent = [("file", (name, content, kind)) for name, content, kind in files]
    return (await server.client.post(f"/agents/{agent_id}/upload", files=sent, **values)).json()


async def test_uploads_are_used_in_turns_and_downloaded(server: AppServer) -> None:
    agent_id = await server.agent(READS)
    one = (await upload(server, agent_id, ("notes.TXT", b"some notes", "text/plain")))["data"]
    assert list(one) == ["id", "name", "size", "extension", "mime_type", "created_by", "created_at", "preview_url"]
    assert (one["name"], one["size"], one["extension"], one["created_by"]) == ("notes.TXT", 10, "txt", server.tenant)
    both = (await upload(server, agent_id, ("a.png", PNG, "image/png"), ("b", b"B", "")))["data"]
    assert [file["name"] for file in both] == ["a.png", "b"]
    for files in ([one, both[0]], [[one, both[0]]]):
        answer = await server.ask(agent_id, files=files, inputs={"file": {"value": [one], "type": "file"}})
        assert answer["data"]["data"]["content"] == (f'["some notes", "{PNG_URI}"] ["some notes"]'), answer
        body = {"model": agent_id, "messages": [{"role": "user", "content": "hi"}], "files": files}
        chat = await server.post(f"{server.url}/v1/chat/completions", body)
        assert chat["choices"][0]["message"]["content"].startswith(f'["some notes", "{PNG_URI}"]'), chat
    raw = await server.client.get("/agents/download", params={"id": one["id"]})
    assert (raw.content, raw.headers["content-type"]) == (b"some notes", "text/plain; charset=utf-8")
    for path in (f"/agents/attachments/{one['id']}/download", f"/document/download/{one['id']}"):
        assert (await server.client.get(path)).content == b"some notes"
    assert (await server.client.get(f"{server.url}/v1/document/download/{one['id']}")).content == b"some notes"


async def test_types_that_may_contain_scripts_are_not_displayed(server: AppServer) -> None:
    agent_id = await server.agent(READS)
    page = (await upload(server, agent_id, ("a.html", b"<script>", "text/html")))["data"]["id"]
    picture = (await upload(server, agent_id, ("a.png", b"\x89PNG", "image/png")))["data"]["id"]
    cases = {
        f"{picture}/preview": ("image/png", "inline"),
        f"{picture}/download": ("image/png", "attachment"),
        f"{picture}/download?disposition=inline": ("image/png", "inline"),
        f"{page}/preview": ("application/octet-stream", "attachment"),
        f"{page}/preview?mime_type=image/svg%2Bxml": ("application/octet-stream", "attachment"),
        f"{picture}/preview?mime_type=text/html": ("application/octet-stream", "attachment"),
        f"{picture}/preview?mime_type=image/png%0d%0aX:y": ("application/octet-stream", "attachment"),
    }
    for path, (kind, disposition) in cases.items():
        got = await server.client.get(f"/agents/attachments/{path}")
        assert (got.headers["content-type"], got.headers["content-disposition"].split(";")[0]) == (kind, disposition)
        assert got.headers["x-content-type-options"] == "nosniff"
    names = {"filename": 'ä";\r\nSet-Cookie: x=1/../b.png', "ext": "png"}
    got = await server.client.get(f"/agents/attachments/{picture}/download", params=names)
    assert "set-cookie" not in got.headers
    assert got.headers["content-disposition"] == "attachment; filename=\"b.png\"; filename*=UTF-8''b.png"
    got = await server.client.get(f"/agents/attachments/{picture}/download", params={"filename": 'ü"x.png'})
    assert got.headers["content-disposition"] == "attachment; filename=\"__x.png\"; filename*=UTF-8''%C3%BC%22x.png"


async def test_files_of_other_tenants_are_not_found(server: AppServer) -> None:
    agent_id = await server.agent(READS)
    file = (await upload(server, agent_id, ("a", b"secret", "")))["data"]
    gone = {"code": 102, "message": "document not found"}
    for kind in ("api", "beta"):
        other = {"Authorization": await server.new_key("other", kind=kind)}
        for path in (f"/agents/attachments/{file['id']}/preview", f"/agents/download?id={file['id']}"):
            assert (await server.get(path, headers=other)) == gone
        assert (await upload(server, agent_id, ("a", b"x", ""), headers=other))["code"] == 103
    for path in ("..%2f..%2fserver.db", MISSING, "%00"):
        assert (await server.get(f"/agents/attachments/{path}/download"))["code"] in (102, 404)
    assert (await server.get("/agents/download?id=../../server.db")) == gone
    assert (await server.get("/agents/download")) == gone
    forged = await server.client.get(f"/agents/download?id={file['id']}", headers={"Authorization": "Bearer beta-x"})
    assert forged.status_code == 401
    server.client.headers["Authorization"] = await server.new_key("other")
    agent_id = await server.agent(READS, "Theirs")
    reply = await server.ask(agent_id, files=[file])
    text = f"The files of the request cannot be read: There is no file '{file['id']}'; upload it first."
    assert (reply["code"], reply["message"]) == (101, text)
    body = {"model": agent_id, "messages": [{"role": "user", "content": "hi"}], "files": [file]}
    chat = await server.client.post(f"{server.url}/v1/chat/completions", json=body)
    assert (chat.status_code, chat.json()["error"]["message"]) == (400, text)
    _, message, failed = await server.stream(agent_id, files=[file])
    assert (message["data"]["content"], failed["code"], failed["message"]) == (f"**ERROR**: {text}", 500, text)
    question = (await server.ask(await server.agent(FORM, "Asks")))["data"]["session_id"]
    path = (await server.get("/agents?keywords=Asks"))["data"]["canvas"][0]["id"]
    answer = {"session_id": question, "inputs": {"size": {"value": 3}}}
    assert (await server.ask(path, "", **answer, files=[file]))["message"] == text
    assert (await server.ask(path, "", **answer))["data"]["data"]["content"] == "Size 3"


async def test_deleting_an_agent_deletes_its_files(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent_id = await server.agent(READS)
        file = (await upload(server, agent_id, ("a", b"x", "")))["data"]
        await server.client.delete(f"/agents/{agent_id}")
        assert (await server.get(f"/agents/download?id={file['id']}"))["code"] == 102
        assert [path for path in (tmp_path / "files").rglob("*") if path.is_file()] == []


async def test_invalid_uploads_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FILE_LIMITS, "max_files", 2)
    async with start_app(tmp_path, max_body_bytes=2000) as server:
        agent_id = await server.agent(READS)
        path = f"/agents/{agent_id}/upload"
        cases: list[tuple[dict[str, Any], str]] = [
            ({"json": {}}, "multipart/form-data"),
            ({"files": [("other", ("a", b"x"))]}, "contains no file"),
            ({"content": b"x", "headers": {"Content-Type": "multipart/form-data"}}, "cannot be read"),
            ({"content": b"x", "headers": {"Content-Type": "multipart/form-data; boundary=b"}}, "cannot be read"),
        ]
        for values, message in cases:
            answer = (await server.client.post(path, **values)).json()
            assert (answer["code"], message in answer["message"]) == (101, True), answer
        large = await server.client.post(path, files={"file": b"x" * 3000})
        assert (large.status_code, large.json()["code"]) == (413, 413)
        await upload(server, agent_id, ("a", b"x", ""), ("b", b"x", ""))
        assert (await upload(server, agent_id, ("c", b"x", "")))["code"] == 429


async def test_pages_are_imported_with_the_guarded_client(server: AppServer) -> None:
    agent_id = await server.agent(READS)
    http = GuardedHttpClient(HttpSettings())
    app_state = replace(server.app_state, services=replace(server.app_state.services, http=http))
    transport = httpx.ASGITransport(make_app(app_state))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://here", headers={"Authorization": server.key}
    ) as client:
        path = f"/api/v1/agents/{agent_id}/upload"
        for url in (server.url, "http://169.254.169.254/latest", "http://[::1]/", "http://localhost/"):
            answer = (await client.post(path, params={"url": url})).json()
            assert (answer["code"], "refused" in answer["message"]) == (102, True), answer
        for url in ("file:///etc/passwd", "gopher://x/", "http://", "http://[", "nonsense"):
            assert (await client.post(path, params={"url": url})).json()["code"] == 101
    await http.aclose()


@pytest.mark.parametrize(
    ("url", "name"), [("https://x.example/a/b%20c", "b c.html"), ("https://x.example", "x.example.html")]
)
async def test_an_imported_page_is_named_after_its_address(server: AppServer, url: str, name: str) -> None:
    from ragflow_lg.services.http import HttpRequest, HttpResponse

    class Pages:
        async def send(self, request: HttpRequest) -> HttpResponse:
            status = 200 if request.url == url else 302
            return HttpResponse(status, {"Content-Type": "text/html; charset=utf-8"}, "<p>Hi</p>", request.url)

    agent_id = await server.agent(READS)
    app_state = replace(server.app_state, services=replace(server.app_state.services, http=Pages()))
    transport = httpx.ASGITransport(make_app(app_state))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://here", headers={"Authorization": server.key}
    ) as client:
        path = f"/api/v1/agents/{agent_id}/upload"
        file = (await client.post(path, params={"url": url})).json()["data"]
        assert (file["name"], file["mime_type"]) == (name, "text/html")
        moved = (await client.post(path, params={"url": "https://moved.example"})).json()
        assert (moved["code"], "302" in moved["message"]) == (102, True)
    assert (await server.ask(agent_id, files=[file]))["data"]["data"]["content"] == '["Hi"] hello'


async def test_files_are_stored_without_an_agent(server: AppServer) -> None:
    path, files = "/documents/upload", {"file": ("a.txt", b"words", "text/plain")}
    assert (await server.post("/file/upload_info", files=files))["data"]["name"] == "a.txt"
    answer = await server.post(path, files=files)
    assert (answer["code"], answer["data"]["name"], "message" in answer) == (0, "a.txt", False)
    turn = await server.ask(await server.agent(SHOWS), files=[answer["data"]])
    assert turn["data"]["data"]["content"] == '["words"]', turn
    several = await server.client.post(path, files=[("file", ("a.txt", b"a")), ("file", ("b.txt", b"b"))])
    assert [file["name"] for file in several.json()["data"]] == ["a.txt", "b.txt"]
    for sent, message in (
        (await server.client.post(f"{path}?url=https://example.org", files=files), "not both"),
        (await server.client.post(path), "Missing input"),
        (await server.client.post(path, files={"other": ("a.txt", b"a")}), "contains no file"),
        (await server.client.post(f"{path}?url=http://127.0.0.1/"), "cannot be imported"),
    ):
        assert sent.json()["code"] in (101, 102)
        assert message in sent.json()["message"]


async def test_the_tenants_files_are_listed_and_deleted_as_in_the_file_manager(server: AppServer) -> None:
    agent_id = await server.agent(READS)
    await upload(server, agent_id, ("a 100%.png", PNG, "image/png"))
    sent = [("file", ("b.txt", b"B", "text/plain")), ("file", ("c.mp3", b"C", "audio/mpeg"))]
    made = (await server.client.post("/files", files=sent)).json()["data"]
    assert [(file["name"], file["type"], file["size"]) for file in made] == [("b.txt", "doc", 1), ("c.mp3", "aural", 1)]
    listed = (await server.get("/files"))["data"]
    assert (listed["total"], listed["parent_folder"]["name"]) == (3, "/")
    assert {file["name"]: file["type"] for file in listed["files"]}["a 100%.png"] == "visual"
    assert {file["parent_id"] for file in listed["files"]} == {listed["parent_folder"]["id"]}
    found = (await server.get("/files?parent_id=root&keywords=0%25.PNG&page_size=1"))["data"]
    assert [file["name"] for file in found["files"]] == ["a 100%.png"]
    assert (await server.get("/files?keywords=%00b.txt"))["data"]["total"] == 1  # PostgreSQL refuses NUL
    assert (await server.client.get(f"/files/{made[0]['id']}")).content == b"B"
    body = {"ids": [made[0]["id"], MISSING, made[0]["id"]]}
    partly = (await server.client.request("DELETE", "/files", json=body)).json()
    assert (partly["code"], partly["data"]) == (102, {"success_count": 1, "errors": [f"File not found: {MISSING}"]})
    whole = (await server.client.request("DELETE", "/files", json={"ids": [made[1]["id"]]})).json()
    assert (whole["code"], whole["data"], (await server.get("/files"))["data"]["total"]) == (0, {"success_count": 1}, 1)
    for answer, code in (
        (await server.get("/files?parent_id=0123"), 102),
        (await server.get("/files?page_size=101"), 101),
        (await server.post("/files", {"name": "folder"}), 101),
        (await server.delete("/files"), 101),
        (await server.get(f"/files/{MISSING}"), 102),
    ):
        assert answer["code"] == code, answer


async def test_no_tenant_and_no_page_reaches_the_files_of_another(server: AppServer) -> None:
    (file,) = (await server.client.post("/files", files={"file": ("a.txt", b"a", "text/plain")})).json()["data"]
    for key, status in ((await server.new_key("tenant-of-others"), 200), (await server.new_key(kind="beta"), 401)):
        headers = {"Authorization": f"Bearer {key}"}
        listed = await server.client.get("/files", headers=headers)
        assert (listed.status_code, file["id"] in listed.text) == (status, False)
        assert (await server.client.get(f"/files/{file['id']}", headers=headers)).json()["code"] != 0
        body = {"ids": [file["id"]]}
        assert (await server.client.request("DELETE", "/files", json=body, headers=headers)).json()["code"] != 0
    assert (await server.client.get(f"/files/{file['id']}")).content == b"a"


@pytest.mark.parametrize("keys", [[], [{"id": "k", "key": base64.b64encode(bytes(32)).decode()}]])
async def test_large_files_are_downloaded_whole(tmp_path: Path, keys: list[dict[str, str]]) -> None:
    content = bytes(range(256)) * 1000
    async with start_app(tmp_path, sections={"encryption_keys": keys}) as server:
        file = (await upload(server, await server.agent(READS), ("a.bin", content, "")))["data"]
        answer = await server.client.get("/agents/download", params={"id": file["id"]})
        assert (answer.content, answer.headers["content-length"]) == (content, "256000")
        (path,) = (path for path in (tmp_path / "files").rglob("*") if path.is_file())
        path.unlink()
        gone = await server.client.get("/agents/download", params={"id": file["id"]})
        assert (gone.json()["code"], gone.json()["message"]) == (102, "document not found")
