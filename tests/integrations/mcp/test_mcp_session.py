import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from ragflow_lg.adapters.http import answer_limits
from ragflow_lg.adapters.http.http_client import GuardedHttpClient
from ragflow_lg.adapters.http.http_settings import HttpSettings
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.mcp.mcp_servers import McpServers
from ragflow_lg.integrations.mcp.mcp_settings import McpServerSettings
from ragflow_lg.services.tool_policies import ServerAnswer
from tests.fakes.http_server import HttpServer, Route
from tests.fakes.mcp_servers import http_server, over_http, real_stdio, servers_of, text_of, tiny, wait_until_closed
from tests.harness.database_servers import free_port
from tests.harness.rows import each_row

ENDED = "The server has ended, or closed the connection."
OpenServer: TypeAlias = Callable[..., AbstractAsyncContextManager[McpServers]]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    number = free_port()
    with http_server(number):
        yield number


@pytest.fixture(params=["stdio", "sse", "streamable"])
def open_server(request: pytest.FixtureRequest, port: int) -> OpenServer:
    """Open the server over each transport."""

    @asynccontextmanager
    async def opener(**more: Any) -> AsyncGenerator[McpServers]:
        if request.param == "stdio":
            more = {key: value for key, value in more.items() if key not in ("headers", "variables")}
            settings = real_stdio(**more)
        else:
            settings = over_http(port, {"sse": "/sse", "streamable": "/mcp"}[request.param], **more)
        async with servers_of(s=settings) as servers:
            yield servers

    return opener


async def test_every_kind_of_result(open_server: OpenServer) -> None:
    async with open_server(max_result_bytes=100_000) as servers:
        server = servers["s"]

        async def call(tool: str, **arguments: Any) -> ServerAnswer:
            return await server.call(tool, arguments, {})

        assert await call("add", a=1, b=2) == ServerAnswer(("3",), structured={"result": 3})
        assert (await call("texts", count=3)).texts == ("text 0", "text 1", "text 2")
        assert await call("nothing") == ServerAnswer()
        assert await call("picture") == ServerAnswer((), ("image",))
        assert await call("picture_and_text") == ServerAnswer(("a pixel",), ("image",))
        assert (failed := await call("fail", why="no luck")).is_error
        assert "no luck" in failed.texts[0]
        assert (unknown := await call("nope")).is_error
        assert "nope" in unknown.texts[0]
        assert "add" in await server.tools()
        # Two agents at once, on one session.
        start = time.monotonic()
        results = await asyncio.gather(*(call("slow", seconds=0.5, name=str(i)) for i in range(8)))
        assert [result.texts[0] for result in results] == [f"slept {i}" for i in range(8)]
        assert time.monotonic() - start < 4
        # A cancelled call ends at once, and the server is notified.
        waiting = asyncio.create_task(call("slow", seconds=30, name="mine"))
        await asyncio.sleep(0.1)
        start = time.monotonic()
        waiting.cancel()
        await asyncio.wait({waiting})
        assert time.monotonic() - start < 20
        while "mine" not in (await call("which_were_cancelled")).texts[0]:
            await asyncio.sleep(0.01)
        # A too large result is an error, and the next call succeeds.
        with pytest.raises(ServiceError, match="100,000 bytes"):
            await call("huge", size=300_000)
        assert (await call("add", a=2, b=2)).texts == ("4",)


async def test_a_slow_tool_times_out_and_the_session_continues(port: int) -> None:
    async with servers_of(s=over_http(port, timeout_s=0.8)) as servers:
        with pytest.raises(TimeoutError) as caught:
            await text_of(servers, "slow", seconds=9)
        assert caught.value.args == (0.8,)
        assert await text_of(servers, "add", a=1, b=1) == "2"


async def test_when_a_process_dies_its_calls_fail_at_once_and_the_next_call_restarts_it() -> None:
    async with servers_of(s=tiny()) as servers:
        first = await text_of(servers, "process")
        waiting = [asyncio.create_task(text_of(servers, "wait")) for _ in range(3)]
        await asyncio.sleep(0.05)
        start = time.monotonic()
        with pytest.raises(ServiceError, match=ENDED):
            await text_of(servers, "die")
        done = await asyncio.gather(*waiting, return_exceptions=True)
        assert [str(error) for error in done] == [ENDED] * 3
        assert time.monotonic() - start < 20
        assert await text_of(servers, "process") not in ("", first)


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
async def test_a_server_is_reached_again_after_a_restart(path: str) -> None:
    number = free_port()
    async with servers_of(s=over_http(number, path)) as servers:
        with http_server(number):
            waiting = asyncio.create_task(text_of(servers, "slow", seconds=30))
            assert await text_of(servers, "add", a=1, b=1) == "2"
            await asyncio.sleep(0.05)
            start = time.monotonic()
            with pytest.raises(ServiceError):
                await text_of(servers, "die")
            with pytest.raises(ServiceError):
                await waiting
            assert time.monotonic() - start < 20
            await asyncio.to_thread(wait_until_closed, number)
            with pytest.raises(ServiceError, match="Cannot connect"):
                await text_of(servers, "add", a=1, b=1)
        with http_server(number):
            assert await text_of(servers, "add", a=1, b=1) == "2"


async def test_a_running_call_is_not_repeated_when_the_server_rejects_another(port: int) -> None:
    async with servers_of(s=over_http(port)) as servers:
        assert await text_of(servers, "add", a=1, b=1) == "2"
        working = asyncio.create_task(text_of(servers, "slow", seconds=1, name="once"))
        await asyncio.sleep(0.1)
        await text_of(servers, "forget")
        # the server drops its sessions after this response
        assert await text_of(servers, "add", a=1, b=2) == "3"
        with pytest.raises(ServiceError):
            await working


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
async def test_a_session_has_no_limit_of_all_its_answers(port: int, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_limits, "MAX_STREAM_BYTES", 20_000)
    async with servers_of(s=over_http(port, path)) as servers:
        for _ in range(3):
            assert len(await text_of(servers, "huge", size=9_000)) == 9_000


async def test_headers_have_variables_and_the_canvas_overrides_them(port: int) -> None:
    headers = {"Authorization": "Bearer $token", "X-Team": "a", "X-Empty": "Bearer "}
    async with servers_of(s=over_http(port, headers=headers, variables={"token": "abc"})) as servers:
        answer = await servers["s"].call("headers", {}, {"x-team": "b"})
    sent = dict(line.split(": ", 1) for line in answer.texts[0].split("\n"))
    assert (sent["authorization"], sent["x-team"], sent.get("x-empty")) == ("Bearer abc", "b", None)


async def test_an_error_status_of_the_url_is_reported(port: int) -> None:
    for kind in ("sse", "streamable-http"):
        for path, message in (("/deny", "answered 401"), ("/nowhere", "answered 404"), ("/away", "answered 307")):
            async with servers_of(s=over_http(port, path, kind=kind)) as servers:
                with pytest.raises(ServiceError, match=message) as caught:
                    await text_of(servers, "add", a=1, b=1)
            assert "169.254" not in str(caught.value)


async def test_the_handshake_times_out() -> None:
    async with servers_of(s=tiny("hang", initialize_timeout_s=0.2)) as servers:
        start = time.monotonic()
        calls = [text_of(servers, "echo") for _ in range(3)]
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert {str(error) for error in done} == {"The server did not complete the handshake within 0.2 s."}
        assert time.monotonic() - start < 20


async def test_a_failing_command_is_reported() -> None:
    missing = McpServerSettings("stdio", "no-such-command")
    for settings, message in ((tiny("crash"), ENDED), (missing, "cannot be started: No such file or directory")):
        async with servers_of(s=settings) as servers:
            with pytest.raises(ServiceError, match=message):
                await text_of(servers, "echo")


async def test_lines_that_are_not_messages_do_not_end_the_session() -> None:
    async with servers_of(s=tiny("garbage")) as servers:
        assert await text_of(servers, "echo", a="ü") == '{"a": "\\u00fc"}'
        with pytest.raises(ServiceError, match="does not conform to the protocol"):
            await text_of(servers, "odd")
        assert await text_of(servers, "echo", a=1) == '{"a": 1}'


async def test_a_hanging_server_is_restarted() -> None:
    async with servers_of(s=tiny(timeout_s=1, initialize_timeout_s=2)) as servers:
        first = current = await text_of(servers, "process")
        with pytest.raises(TimeoutError):
            await text_of(servers, "wait")
        while current == first:  # it does not answer the ping after the timeout
            await asyncio.sleep(0.1)
            with suppress(ServiceError):  # a call may be pending when the session ends
                current = await text_of(servers, "process")


async def test_closing_the_servers_fails_pending_calls(port: int) -> None:
    async with servers_of(s=tiny()) as servers:
        waiting = asyncio.create_task(text_of(servers, "wait"))
        await text_of(servers, "echo")
    with pytest.raises(ServiceError, match="closed"):
        await waiting


async def test_the_environment_of_a_process_is_minimal_and_no_shell_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    token = "$(id) ${OPENAI_API_KEY}"
    async with servers_of(s=tiny(env={"TOKEN": token})) as servers:
        environment = json.loads(await text_of(servers, "environment"))
    assert environment["TOKEN"] == token
    assert set(environment) <= {"HOME", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TOKEN", "USER"}


def wait_for_exit(pids: list[int], limit_s: float = 20.0) -> list[int]:
    """Wait until all processes have ended; return those that have not."""
    end = time.monotonic() + limit_s
    while (left := [pid for pid in pids if Path(f"/proc/{pid}").exists()]) and time.monotonic() < end:
        time.sleep(0.01)
    return left


@pytest.mark.slow
async def test_a_process_that_does_not_exit_is_killed_with_its_children() -> None:
    async with servers_of(s=tiny("stay")) as servers:
        pids = [int(pid) for pid in (await text_of(servers, "process")).split()]
    assert len(pids) == 2
    assert wait_for_exit(pids) == []


JSON = {"Content-Type": "application/json"}


@asynccontextmanager
async def opened(
    route: Route, *, allow: str = "mcp.test", **more: Any
) -> AsyncGenerator[tuple[McpServers, HttpServer]]:
    """Open the server at the URL of one route, with secrets in it."""
    async with HttpServer([route]).running() as server:
        http = GuardedHttpClient(HttpSettings(allow=(allow,)), resolve=server.resolve)
        url = f"http://me:geheim@mcp.test:{server.port}/mcp?key=geheim"
        settings = McpServerSettings("streamable-http", url=url, timeout_s=2, **more)
        servers = McpServers({"s": settings}, http)
        yield servers, server
        await servers.aclose()
        await http.aclose()


async def test_internal_addresses_are_refused() -> None:
    async with opened(Route("/mcp"), allow="other.test") as (servers, server):
        with pytest.raises(ServiceError, match="is refused"):
            await text_of(servers, "echo")
    assert server.received == []


@each_row(
    ("route", "says"),
    [
        (Route("/mcp", status=401, body="geheim"), "'mcp.test' answered 401."),
        (Route("/mcp", headers=JSON, body="x" * 5000), "does not conform to the protocol"),
        (Route("/mcp", headers={**JSON, "Content-Encoding": "gzip"}, body=b"\x1f\x8b"), "compressed by 'gzip'"),
        (Route("/mcp", headers={**JSON, "Content-Length": "900"}, body="{", breaks=True), "closed the connection"),
        (Route("/mcp", raw=b"HTTP/1.1 200"), "closed the connection early"),
        (
            Route("/mcp", headers={"Content-Type": "text/event-stream"}, pieces=[b"x" * 400] * 4, piece_delay_ms=1),
            "more than 1,000 bytes",
        ),
    ],
)
async def test_a_broken_answer_ends_the_session_with_its_reason(
    route: Route, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with opened(route, max_result_bytes=1000) as (servers, server):
        with pytest.raises(ServiceError) as caught:
            await text_of(servers, "echo")
    assert says in str(caught.value)
    assert server.received[0].path == "/mcp?key=geheim"
    assert server.received[0].header("authorization") == "Basic bWU6Z2VoZWlt"
    assert "geheim" not in f"{caught.value}{caplog.text}"
