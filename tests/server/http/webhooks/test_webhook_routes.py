import asyncio
import base64
import hmac
import json
import re
from typing import Any

import httpx
import jwt
import pytest
from msgspec.structs import replace

from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.server.database.webhook_repository import WebhookTests
from ragflow_lg.server.http.app import make_app
from tests.fakes.images import PNG
from tests.fakes.services import Reply
from tests.server.cli.command import ROOT, run_documented
from tests.server.http.app_server import FORM, AppServer, asks, canvas
from tests.server.waiting import wait_while

OPEN = {"auth_type": "none", "allow_anonymous": True}
BODY = {"body": {"properties": {"event": {"type": "string"}, "n": {"type": "number"}}, "required": ["event"]}}
MISSING = "0" * 32


def hook(text: str = "{begin@body.event} {begin@query}", status: Any = None, **params: Any) -> dict[str, Any]:
    begin = {"mode": "Webhook", "security": OPEN, "schema": BODY, "execution_mode": "Streaming", **params}
    message = {"content": [text], **({"status": status} if status is not None else {})}
    return canvas(("begin", "Begin", begin, ["Message:0"]), ("Message:0", "Message", message, []))


async def call(server: AppServer, agent_id: str, method: str = "POST", path: str = "", **values: Any) -> httpx.Response:
    """Call a webhook without an API key."""
    if not values.keys() & {"content", "files", "data"}:
        values.setdefault("json", {"event": "push"})
    async with httpx.AsyncClient(base_url=f"{server.url}/api/v1", timeout=20, verify=False) as client:
        return await client.request(method, path or f"/agents/{agent_id}/webhook", **values)


async def test_a_call_runs_a_turn_to_its_end(server: AppServer) -> None:
    schema = {**BODY, "query": {"properties": {"q": {"type": "number"}}}}
    agent_id = await server.agent(hook(schema=schema, status="201"))
    for path in (f"/agents/{agent_id}/webhook", f"/webhook/{agent_id}"):
        answer = await call(server, agent_id, path=f"{path}?q=3&other=4")
        assert (answer.status_code, answer.json()) == (201, {"message": 'push {"q": 3}', "success": True, "code": 201})
        assert list(answer.json()) == ["message", "success", "code"]
    for method in ("PUT", "PATCH", "DELETE", "GET"):
        assert (await call(server, agent_id, method)).status_code == 201
    head = await call(server, agent_id, "HEAD")
    assert (head.status_code, head.content) == (201, b"")
    (row, *_) = (await server.get(f"/agents/{agent_id}/sessions"))["data"]
    assert (row["name"], row["source"], row["message"][-1]["content"]) == ("webhook", "webhook", 'push {"q": 0}')
    begin = {"mode": "Webhook", "security": OPEN, "execution_mode": "Immediately"}
    slow = canvas(
        ("begin", "Begin", begin, ["LLM:0"]),
        ("LLM:0", "LLM", {"llm_id": "m", "prompts": [{"role": "user", "content": "Hi"}]}, []),
    )
    server.model.replies += [Reply(hangs=True)]
    agent_id = await server.agent(slow)
    assert (await call(server, agent_id)).json() is None
    await wait_while(lambda: not server.model.is_hanging)
    (row,) = (await server.get(f"/agents/{agent_id}/sessions"))["data"]
    await server.client.post(f"/tasks/{row['id']}/cancel")


@pytest.mark.parametrize(
    ("response", "status", "kind", "content"),
    [
        ({"status": 202, "body_template": '{"ok": true}'}, 202, "application/json", b'{"ok":true}'),
        ({"body_template": "Thanks!"}, 200, "text/plain; charset=utf-8", b"Thanks!"),
        ({"body_template": "10000000000000000000001"}, 200, "application/json", b"10000000000000000000001"),
        ({}, 200, "application/json", b"null"),
        ({"status": "204", "body_template": "x"}, 204, None, b""),
    ],
)
async def test_an_immediate_response_is_that_of_the_canvas(
    server: AppServer, response: dict[str, Any], status: int, kind: str | None, content: bytes
) -> None:
    agent_id = await server.agent(hook(execution_mode="Immediately", response=response))
    answer = await call(server, agent_id)
    assert (answer.status_code, answer.headers.get("content-type"), answer.content) == (status, kind, content)
    path, rows = f"/agents/{agent_id}/sessions", list[Any]()
    async with asyncio.timeout(10):
        while not (rows and rows[0]["round"]):
            await asyncio.sleep(0.01)
            rows = (await server.get(path))["data"]
    assert rows[0]["message"][-1]["content"] == "push {}"


async def test_all_kinds_of_bodies_are_parsed(server: AppServer) -> None:
    schema = {"body": {"properties": {"event": {}, "n": {"type": "number"}, "f": {"type": "file"}}}}
    agent_id = await server.agent(hook("{begin@body}", schema=schema))

    async def body(**values: Any) -> Any:
        answer = await call(server, agent_id, **values)
        return json.loads(answer.json()["message"]) if answer.status_code == 200 else answer.json()["message"]

    assert await body(json={"event": "a", "n": 1, "more": 2}) == {"event": "a", "n": 1, "f": []}
    assert await body(data={"event": "ä b", "n": "2"}) == {"event": "ä b", "n": 2, "f": []}
    files = [("f", ("a.txt", b"text")), ("f", ("b.png", PNG, "image/png"))]
    assert await body(data={"event": "x"}, files=files) == {
        "event": "x",
        "n": 0,
        "f": ["text", f"data:image/png;base64,{base64.b64encode(PNG).decode()}"],
    }
    assert await body(content=b'{"event": "raw"}') == {"event": "raw", "n": 0, "f": []}
    for content in (b"", b"no JSON", b"[1]"):
        assert await body(content=content) == {"event": "", "n": 0, "f": []}
    assert "not JSON" in await body(content=b"{", headers={"Content-Type": "application/json"})
    assert "JSON object" in await body(content=b"[]", headers={"Content-Type": "application/json"})
    assert "Too many files" in await body(files=[("f", ("a", b"x"))] * 11)
    assert "is not UTF-8 text" in await body(files={"f": ("a.bin", b"\xff\0")})
    assert "type mismatch" in await body(json={"event": 7})


async def test_secrets_of_the_caller_are_hidden_from_the_canvas(server: AppServer) -> None:
    headers: dict[str, Any] = {"properties": {"X-Token": {}, "x-event": {}, "Authorization": {}}}
    security = {"auth_type": "token", "token": {"token_header": "X-Token", "token_value": "geheim"}}
    agent_id = await server.agent(hook("{begin@headers}", security=security, schema={"headers": headers}))
    sent = {"x-token": "geheim", "X-Event": "push", "Authorization": "Bearer geheim", "Cookie": "a=geheim"}
    answer = await call(server, agent_id, headers=sent)
    assert json.loads(answer.json()["message"]) == {"X-Token": "", "x-event": "push", "Authorization": ""}
    assert (await call(server, agent_id, path=f"/agents/{agent_id}/webhook/test", headers=sent)).status_code == 401
    data = await server.client.post(
        f"/agents/{agent_id}/webhook/test", json={}, headers={"X-Token": "geheim", "X-Event": "push"}
    )
    assert data.status_code == 200
    test_id = (await server.get(f"/agents/{agent_id}/webhook/logs?since_ts=1"))["data"]["webhook_id"]
    events = (await server.client.get(f"/agents/{agent_id}/webhook/logs?since_ts=1&webhook_id={test_id}")).text
    assert '"x-event":"push"' in events
    assert "geheim" not in events
    assert server.key not in events


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"methods": ["GET"]}, {}, "The method POST is not allowed; use GET."),
    ({"security": {}}, {}, "no `security`"),
    ({"security": {"auth_type": "none"}}, {}, "allow_anonymous"),
    ({"security": {**OPEN, "max_body_size": "1kb"}}, {"content": b"x" * 2000}, "larger than 1,024 bytes"),
    ({"security": {**OPEN, "ip_whitelist": "203.0.113.0/24"}}, {}, "this address"),
    (
        {"security": {**OPEN, "ip_whitelist": "203.0.113.0/24"}},
        {"headers": {"X-Real-IP": "203.0.113.1"}},
        "this address",
    ),
    ({"content_types": "text/xml"}, {}, "must be text/xml, not application/json"),
    ({}, {"json": {}}, "body missing required field: event"),
    ({"response": {"status": 500}, "execution_mode": "Immediately"}, {}, "response.status"),
    ({"response": "204"}, {}, "`response` must be an object"),
    ({"schema": "event"}, {}, "`schema` must be an object"),
]


async def test_invalid_calls_are_refused_before_anything_runs(server: AppServer) -> None:
    for number, (params, values, message) in enumerate(REFUSED):
        agent_id = await server.agent(hook(**params), f"A{number}")
        answer = await call(server, agent_id, **values)
        assert (answer.status_code, list(answer.json()), answer.json()["code"]) == (400, ["code", "message"], 400)
        assert message in answer.json()["message"], answer.json()
        assert (await server.get(f"/agents/{agent_id}/sessions"))["total"] == 0
    other = await server.agent(FORM, "No webhook")
    flow = await server.agent(hook(), "Flow", canvas_category="dataflow_canvas")
    for agent_id, message in ((other, "has no webhook"), (flow, "data flow"), (MISSING, "Webhook not found")):
        answer = await call(server, agent_id)
        assert (answer.status_code, message in answer.json()["message"]) == (400, True)


def signed(body: bytes, secret: str = "geheim") -> dict[str, Any]:
    signature = hmac.new(secret.encode(), body, "sha256").hexdigest()
    return {
        "content": body,
        "headers": {"Content-Type": "application/json", "X-Hub-Signature-256": f"sha256={signature}"},
    }


SIGNED = {"auth_type": "hmac", "hmac": {"secret": "geheim"}}


async def test_a_signed_body_is_accepted_once(server: AppServer) -> None:
    headers: dict[str, Any] = {"properties": {"X-Hub-Signature-256": {}}}
    agent_id = await server.agent(
        hook("{begin@body.event}{begin@headers}", security=SIGNED, schema={**BODY, "headers": headers})
    )
    first = signed(b'{"event": "push"}')
    answer = await call(server, agent_id, **first)
    assert (answer.status_code, answer.json()["message"]) == (200, 'push{"X-Hub-Signature-256": ""}')
    second = httpx.ASGITransport(make_app(server.app_state))
    async with httpx.AsyncClient(transport=second, base_url="http://other") as other:
        repeated = await other.post(f"/api/v1/agents/{agent_id}/webhook?more=1", **first)
    assert (repeated.status_code, "received before" in repeated.json()["message"]) == (400, True)
    assert (await call(server, agent_id, **signed(b'{"event": "tag"}'))).status_code == 200
    copy = await server.agent(hook(security=SIGNED), "Copy")
    assert (await call(server, copy, **first)).status_code == 200, "each webhook remembers its own calls"
    assert (await server.get(f"/agents/{agent_id}/sessions"))["total"] == 2


async def test_bodies_without_the_right_signature_are_not_parsed(server: AppServer) -> None:
    security = {**SIGNED, "max_body_size": "1kb", "rate_limit": {"limit": 1, "per": "hour"}}
    agent_id = await server.agent(hook(security=security))
    unauthenticated: list[dict[str, Any]] = [
        {"json": {"event": "push"}},
        {**signed(b"{"), "content": b"{ "},
        signed(b'{"event": "push"}', "other"),
        {"files": {"f": ("a.txt", b"text")}, "headers": {"X-Hub-Signature-256": f"sha256={'0' * 64}"}},
    ]
    for values in unauthenticated:
        answer = await call(server, agent_id, **values)
        assert answer.json() == {"code": 400, "message": "The call is not authenticated."}

    async def pieces() -> Any:
        for _ in range(100):
            yield b"x" * 1000

    large = await call(server, agent_id, content=pieces(), headers=signed(b"")["headers"])
    assert "larger than 1,024" in large.json()["message"]
    good = signed(b'{"event": "push"}')
    assert (await call(server, agent_id, **good)).status_code == 200, "refused calls did not count"
    late = signed(b'{"event": "tag"}')
    for _ in range(2):
        assert "Too many calls" in (await call(server, agent_id, **late)).json()["message"], "it may try again"


async def test_a_signed_call_that_was_refused_may_be_repeated(server: AppServer) -> None:
    agent_id = await server.agent(hook(security=SIGNED))
    for _ in range(2):
        answer = await call(server, agent_id, **signed(b"{}"))
        assert answer.json()["message"] == "body missing required field: event"
    for _ in range(2):
        tested = await server.client.post(f"/agents/{agent_id}/webhook/test", **signed(b'{"event": "x"}'))
        assert tested.status_code == 200, "the owner may repeat a test"
    answer = await call(server, agent_id, **signed(b'{"event": "x"}'))
    assert "received before" in answer.json()["message"], "anyone who has seen the test may not"
    unsigned = await server.client.post(f"/agents/{agent_id}/webhook/test", json={"event": "x"})
    assert unsigned.json()["message"] == "The call is not authenticated."


async def test_signed_bodies_of_every_kind_are_read_once(server: AppServer) -> None:
    agent_id = await server.agent(hook("{begin@body}", security=SIGNED))
    sent_bodies: list[dict[str, Any]] = [
        {"data": {"event": "a b"}},
        {"files": {"f": ("a.txt", b"text")}, "data": {"event": "a b"}},
    ]
    for values in sent_bodies:
        request = httpx.Request("POST", "http://x", **values)
        body = request.read()
        sent: dict[str, Any] = {**signed(body)["headers"], "Content-Type": request.headers["Content-Type"]}
        answer = await call(server, agent_id, content=body, headers=sent)
        assert json.loads(answer.json()["message"])["event"] == "a b"
    secret = "s" * 32
    agent_id = await server.agent(hook(security={"auth_type": "jwt", "jwt": {"secret": secret, "single_use": True}}))

    async def send(token_id: str) -> str:
        token = jwt.encode({"jti": token_id, "exp": 9_999_999_999}, secret, algorithm="HS256")
        return (await call(server, agent_id, headers={"Authorization": f"Bearer {token}"})).json()["message"]

    assert [await send("a"), await send("b")] == ["push {}"] * 2
    assert "received before" in await send("a")


async def test_only_the_owner_sees_reasons_of_failures(server: AppServer) -> None:
    begin = {"mode": "Webhook", "security": OPEN, "execution_mode": "Streaming"}
    failing = asks("Hi", begin)
    asking = canvas(
        ("begin", "Begin", begin, ["UserFillUp:0"]), ("UserFillUp:0", "UserFillUp", {"inputs": {"a": {}}}, [])
    )
    lost = canvas(("begin", "Begin", begin, ["Loop:0"]), ("Loop:0", "Loop", {"loop_variables": []}, []))
    server.model.replies += [Reply(error="key sk-123 is wrong")] * 9
    for dsl, public, private in (
        (failing, "The run failed. Its session is", "sk-123"),
        (asking, "The run failed. Its session is", "which a webhook cannot answer"),
        (lost, "its owner can see", "Loop has no body"),
    ):
        agent_id = await server.agent(dsl, private)
        answer = await call(server, agent_id)
        assert (answer.status_code, answer.json()["code"], public in answer.json()["message"]) == (400, 400, True)
        assert private not in answer.text
        tested = await server.client.post(f"/agents/{agent_id}/webhook/test", json={})
        assert (tested.status_code, private in tested.json()["message"]) == (400, True)


async def test_the_owner_follows_a_test(server: AppServer) -> None:
    agent_id = await server.agent(hook())
    logs = f"/agents/{agent_id}/webhook/logs"
    nothing = (await server.get(logs))["data"]
    assert list(nothing) == ["webhook_id", "events", "next_since_ts", "finished"]
    since = nothing["next_since_ts"]
    assert nothing == {"webhook_id": None, "events": [], "next_since_ts": since, "finished": False}
    assert (await server.get(logs, params={"since_ts": since}))["data"] == nothing
    await call(server, agent_id)
    assert (await server.get(logs, params={"since_ts": since}))["data"] == nothing
    path = f"/agents/{agent_id}/webhook/test"
    assert (await server.post(path, {"event": "push"}))["message"] == "push {}"
    first = (await server.get(logs, params={"since_ts": since}))["data"]
    assert (first["events"], first["finished"], first["next_since_ts"] > since) == ([], False, True)
    query = {"since_ts": first["next_since_ts"], "webhook_id": first["webhook_id"]}
    page = (await server.get(f"/webhook_trace/{agent_id}", params=query))["data"]
    names = [event["event"] for event in page["events"]]
    assert (names[0], names[-1], page["finished"]) == ("workflow_started", "finished", True)
    assert [next(iter(event)) for event in page["events"]] == ["ts"] * len(names)
    assert (page["events"][-1]["success"], page["next_since_ts"]) == (True, page["events"][-1]["ts"])
    query["since_ts"] = page["events"][2]["ts"]
    assert (await server.get(logs, params=query))["data"]["events"] == page["events"][3:]
    later_us = int(page["next_since_ts"] * 1_000_000) + 1
    tests = WebhookTests(server.app_state.database, server.tenant, agent_id)
    await tests.add_events(first["webhook_id"], [(later_us, '{"content":"\\ud83d"}')])
    query["since_ts"] = page["next_since_ts"]
    assert (await server.get(logs, params=query))["data"]["events"] == [{"content": "\ud83d"}]
    refused = await server.client.post(f"/webhook_test/{agent_id}", json={})
    assert refused.json()["message"] == "body missing required field: event"
    second = (await server.get(logs, params={"since_ts": page["next_since_ts"]}))["data"]
    query = {"since_ts": 0, "webhook_id": second["webhook_id"]}
    events = (await server.get(logs, params=query))["data"]["events"]
    assert [(e["event"], e.get("error_type"), e.get("success")) for e in events] == [
        ("error", "RequestError", None),
        ("finished", None, False),
    ]
    unknown = (await server.get(logs, params={"since_ts": 1, "webhook_id": MISSING}))["data"]
    assert (unknown["events"], unknown["finished"]) == ([], True)
    for odd in ("x", "nan", "-1", "1e99"):
        assert (await server.get(logs, params={"since_ts": odd}))["code"] == 101
    theirs = {"Authorization": await server.new_key("other")}
    assert (await server.get(logs, params=query, headers=theirs))["code"] == 103
    assert (await server.post(path, {"event": "x"}, headers=theirs))["code"] == 103
    assert (await server.delete(f"/agents/{agent_id}"))["data"] is True
    assert (await call(server, agent_id)).status_code == 400


async def test_an_address_in_a_payload_cannot_reach_internal_servers(server: AppServer) -> None:
    begin = {"mode": "Webhook", "security": OPEN, "schema": BODY, "execution_mode": "Streaming"}
    fetching = canvas(
        ("begin", "Begin", begin, ["Invoke:0"]),
        ("Invoke:0", "Invoke", {"url": "{begin@body.event}", "method": "get"}, ["Message:0"]),
        ("Message:0", "Message", {"content": ["{Invoke:0@result}"]}, []),
    )
    agent_id = await server.agent(fetching)
    http = GuardedHttpClient(HttpSettings())
    app_state = replace(server.app_state, services=replace(server.app_state.services, http=http))
    transport = httpx.ASGITransport(make_app(app_state))
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        for url in (
            f"{server.url}/health",
            "http://169.254.169.254/",
            "http://[::ffff:127.0.0.1]/",
            "file:///etc/passwd",
        ):
            answer = await client.post(f"/api/v1/agents/{agent_id}/webhook", json={"event": url})
            assert (answer.status_code, answer.json()["message"].partition(".")[0]) == (400, "The run failed"), url
    await http.aclose()


PAGE = (ROOT / "docs" / "webhooks.md").read_text("utf-8")
COMMANDS = [
    block
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    if not language and "curl" in block
]


@pytest.mark.slow
async def test_the_commands_work(server: AppServer) -> None:
    commands = re.sub(r"^export KEY=.*\n", "", "\n".join(COMMANDS), flags=re.MULTILINE)
    output = await run_documented(commands, URL=f"{server.url}/api/v1", KEY=server.key)
    assert '"message":"Order 17: Where is it?"' in output, "the call is answered"
    assert '"finished":true' in output, "the log shows the test to its end"
