import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ragflow_lg.adapters.telemetry.otel_spans import OtelSpans
from ragflow_lg.base.request_notes import current_notes
from ragflow_lg.server.http.app import make_app
from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, AppServer, asks, start_app
from tests.server.waiting import wait_while


async def test_every_response_has_a_request_id(server: AppServer) -> None:
    answer = await server.client.get("/agents", headers={"X-Request-Id": "proxy-1.a_b"})
    assert answer.headers["x-request-id"] == "proxy-1.a_b"
    for forged in ("a b", "x" * 65, "é".encode("latin-1").decode("latin-1"), ""):
        answer = await server.client.get("/agents", headers=[(b"X-Request-Id", forged.encode("latin-1"))])
        assert len(answer.headers["x-request-id"]) == 32


async def test_every_response_of_a_demo_says_so(server: AppServer) -> None:
    state = server.app_state
    for is_demo in (False, True):
        app = make_app(replace(state, services=replace(state.services, is_demo=is_demo)))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            paths = ("/v1/chat/completions", "/v1/responses", "/a2a", "/mcp", "/api/v1/agents")
            found = [(await client.post(path, json={})).headers.get("x-ragflow-demo") for path in paths]
        assert found == ["true" if is_demo else None] * len(paths)


@pytest.mark.parametrize(
    ("section", "whose"), [({"requests_per_minute": 2}, "key"), ({"requests_per_minute_address": 2}, "address")]
)
async def test_frequent_requests_are_refused_with_a_retry_time(
    tmp_path: Path, section: dict[str, Any], whose: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ragflow_lg.audit")
    async with start_app(tmp_path, **section) as server:
        for _ in range(2):
            assert (await server.get("/agents"))["code"] == 0
        refused = await server.client.get("/agents")
        assert (refused.status_code, refused.json()["code"]) == (429, 429)
        assert 1 <= int(refused.headers["retry-after"]) <= 30
        assert refused.headers["x-content-type-options"] == "nosniff"
        theirs = await server.client.get(f"{server.url}/v1/models")
        assert (theirs.json()["error"]["type"], theirs.headers["x-should-retry"]) == ("rate_limit_error", "true")
        assert (await server.client.get(f"{server.url}/health")).status_code == 200
    assert {"event": "request.too_often", "whose": whose}.items() <= json.loads(caplog.messages[-1]).items()


async def test_the_spelling_of_a_key_does_not_change_its_rate(tmp_path: Path) -> None:
    async with start_app(tmp_path, requests_per_minute=3) as server:
        spellings = [server.key, f"Bearer {server.key}", f"bEaReR   {server.key}", f"bearer {server.key}"]
        answers = [await server.client.get("/agents", headers={"Authorization": each}) for each in spellings]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]


async def test_invented_keys_do_not_reset_the_rate_of_a_real_key(tmp_path: Path) -> None:
    async with start_app(tmp_path, requests_per_minute=1) as server:
        server.operations.keys._max_clients = 2
        assert (await server.client.get("/agents")).status_code == 200
        for number in range(4):
            answer = await server.client.get("/agents", headers={"Authorization": f"ragflow-{number}"})
            assert answer.status_code == 401
        assert (await server.client.get("/agents")).status_code == 429


async def test_the_addresses_of_an_ipv6_network_share_their_rate(tmp_path: Path) -> None:
    async with start_app(tmp_path, requests_per_minute_address=1, trusted_proxies=("127.0.0.1",)) as server:
        addresses = ["2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "2001:db8:1:3::1"]
        answers = [await server.client.get("/agents", headers={"X-Forwarded-For": each}) for each in addresses]
        assert [answer.status_code for answer in answers] == [200, 429, 200]


async def test_a_disconnect_within_the_body_is_logged_as_499(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ragflow_lg.access")
    async with start_app(tmp_path) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
        head = f"POST /api/v1/agents HTTP/1.1\r\nHost: x\r\nAuthorization: {server.key}\r\nContent-Length: 9\r\n\r\n{{"
        writer.write(head.encode())
        await writer.drain()
        await server.client.get(f"{server.url}/health")
        writer.close()
        await wait_while(lambda: not any("POST" in line for line in caplog.messages))
    assert [(r.levelname, r.message.split()[2]) for r in caplog.records if "POST" in r.message] == [("INFO", "499")]


async def test_a_request_that_the_end_of_the_server_cuts_off_is_refused(server: AppServer) -> None:
    app, begun, sent = make_app(server.app_state), asyncio.Event(), list[Any]()

    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    app.add_api_route("/api/v1/slow", work)
    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": "/api/v1/slow",
        "query_string": b"",
        "headers": [],
    }
    task = asyncio.ensure_future(app(scope, receive, send))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert json.loads(sent[1]["body"]) == {"code": 500, "message": "The server is shutting down.", "data": False}


HOOKED = asks("hi", {"mode": "Webhook", "security": {"auth_type": "none", "allow_anonymous": True}})


async def all_routes(server: AppServer, agent: str) -> dict[str, tuple[str, dict[str, str]]]:
    """Return the address and the headers of a request that begins a run, for each kind of route."""
    beta = await server.new_key(kind="beta")
    api, page = ({"Authorization": f"Bearer {key}"} for key in (server.key, beta))
    root = f"{server.url}/api/v1"
    return {
        "native": (f"{server.url}/native/v1/agents/{agent}/runs", api),
        "stream": (f"{server.url}/native/v1/agents/{agent}/runs/stream", api),
        "page": (f"{root}/agentbots/{agent}/completions", page),
        "openai": (f"{root}/agents_openai/{agent}/chat/completions", api),
        "webhook": (f"{root}/agents/{agent}/webhook", {}),
    }


async def refusals(server: AppServer, routes: dict[str, tuple[str, dict[str, str]]]) -> dict[str, Any]:
    """Send a request to every route, and return the code of each refusal."""
    codes: dict[str, Any] = {}
    bodies = {"openai": {"messages": [{"role": "user", "content": "hi"}]}, "webhook": {}}
    async with httpx.AsyncClient(timeout=20) as client:
        for name, (url, headers) in routes.items():
            answer = await client.post(url, headers=headers, json=bodies.get(name, {"query": "hi"}))
            assert (answer.status_code, int(answer.headers["retry-after"]) >= 1) == (429, True), (name, answer.text)
            body = answer.json()
            codes[name] = body.get("code") or body["error"].get("code") or body["error"]["type"]
            assert "again later" in body.get("message", "") + str(body.get("error", ""))
    return codes


SHAPES = {
    "native": "too-many-requests",
    "stream": "too-many-requests",
    "page": 429,
    "openai": "rate_limit_error",
    "webhook": 429,
}


async def test_every_surface_refuses_in_its_own_shape_when_all_slots_are_taken(tmp_path: Path) -> None:
    section: dict[str, Any] = {"max_runs": 1, "max_waiting_runs": 0}
    async with start_app(tmp_path, [Reply(hangs=True, repeat=True)], **section) as server:
        agent = await server.agent(HOOKED)
        session = await server.session(agent)
        first = asyncio.create_task(server.ask(agent, session_id=session))
        await wait_while(lambda: server.turns._slots.in_use != 1)
        assert await refusals(server, await all_routes(server, agent)) == SHAPES
        assert (server.turns._slots.in_use, len(server.running)) == (1, 1)
        while not first.done():  # the model may not have been called yet
            await server.client.post(f"/tasks/{session}/cancel")


async def test_every_surface_refuses_frequent_requests_in_its_own_shape(tmp_path: Path) -> None:
    async with start_app(tmp_path, requests_per_minute_address=1) as server:
        assert (await server.client.get("/agents")).status_code == 200
        assert await refusals(server, await all_routes(server, "0" * 32)) == SHAPES


async def test_only_trusted_proxies_set_the_client_address(tmp_path: Path) -> None:
    for proxies, forwarded, statuses in (
        ((), "10.0.0.{}", [200, 429]),
        (("127.0.0.1",), "10.0.0.{}", [200, 200]),
        (("127.0.0.0/8",), "10.0.0.{}, 10.1.1.1", [200, 429]),  # an address that the client sets itself is ignored
        (("127.0.0.1", "10.1.1.1"), "10.0.0.{}, 10.1.1.1", [200, 200]),
        (("10.1.1.1",), "10.0.0.{}", [200, 429]),
    ):
        async with start_app(tmp_path, requests_per_minute_address=1, trusted_proxies=proxies) as server:
            sent = [{"X-Forwarded-For": forwarded.format(n)} for n in (1, 2)]
            answers = [await server.client.get("/agents", headers=headers) for headers in sent]
            assert [answer.status_code for answer in answers] == statuses


async def test_log_lines_have_the_request_id_and_the_tenant(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    seen: dict[str, tuple[str, str, bool]] = {}

    class Recorder(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            notes = current_notes()
            seen[record.name] = (notes.request_id, notes.tenant, bool(notes.run and notes.session))

    handler = Recorder()
    logging.getLogger().addHandler(handler)
    try:
        async with start_app(tmp_path) as server:
            body = {"agent_id": await server.agent(ECHO), "query": "hi"}
            await server.client.post("/agents/chat/completions", json=body, headers={"X-Request-Id": "r7"})
    finally:
        logging.getLogger().removeHandler(handler)
    assert seen["ragflow_lg.access"] == seen["ragflow_lg.server.runs.run_end"] == ("r7", server.tenant, True)


async def test_a_run_belongs_to_the_span_of_its_request(tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with start_app(tmp_path, callbacks=(OtelSpans(provider),)) as server:
        agent = await server.agent(ECHO)
        trace = "0af7651916cd43dd8448eb211c80319c"
        headers = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
        await server.client.post("/agents/chat/completions", json={"agent_id": agent, "query": "hi"}, headers=headers)
    spans = {span.name.partition(" ")[0]: span for span in exporter.get_finished_spans()}
    request, run = spans["POST"], spans["invoke_workflow"]
    assert request.name.startswith("POST /api/v1/agents")
    assert request.context is not None
    assert run.context is not None
    assert run.parent is not None
    assert (f"{run.context.trace_id:032x}", run.parent.span_id) == (trace, request.context.span_id)


async def test_large_bodies_are_refused_without_a_length_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ragflow_lg.audit")

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(50):
            yield b"x" * 100

    async with start_app(tmp_path, max_body_bytes=1000) as server:
        for content in (b"x" * 1001, pieces()):
            answer = await server.client.post("/agents", content=content)
            assert (answer.status_code, answer.json()["code"], answer.headers["x-frame-options"]) == (413, 413, "DENY")
            event = json.loads(caplog.messages[-1])
            assert (event["event"], event["reason"], event["tenant"]) == ("request.refused", "size", "tenant")
        assert (await server.post("/agents", content=b"{}"))["code"] == 101


async def test_a_large_body_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    async with start_app(tmp_path, max_body_bytes=1000) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
        head = (
            f"POST /api/v1/agents HTTP/1.1\r\nHost: x\r\nAuthorization: {server.key}\r\nContent-Length: 9999999\r\n\r\n"
        )
        writer.write(head.encode().replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
        assert b" 413 " in await asyncio.wait_for(reader.readline(), 60)
        writer.close()


async def test_trailing_slashes_are_ignored(server: AppServer) -> None:
    assert (await server.post("/agents/", {}))["message"] == "No DSL data in request."
    assert (await server.get(f"{server.url}/"))["name"] == "ragflow-lg"
    assert (await server.get(f"{server.url}/nothing/"))["code"] == 404
