"""Sessions with real servers, made with the SDK, over each transport."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, TypeAlias

import pytest

from ragflow_lg.adapters.mcp.mcp_servers import McpServers
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.services.tool_server import ServerAnswer
from tests.fakes.mcp_servers import free_port, http_server, over_http, real_stdio, servers_of, text_of, tiny

Open: TypeAlias = Callable[..., AbstractAsyncContextManager[McpServers]]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    number = free_port()
    with http_server(number):
        yield number


@pytest.fixture(params=["stdio", "sse", "streamable"])
def opened(request: pytest.FixtureRequest, port: int) -> Open:
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


async def test_every_kind_of_answer(opened: Open) -> None:
    async with opened(max_result_bytes=100_000) as servers:
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
        started = time.monotonic()
        slept = await asyncio.gather(*(call("slow", seconds=0.3, name=str(i)) for i in range(8)))
        assert [answer.texts[0] for answer in slept] == [f"slept {i}" for i in range(8)]
        assert time.monotonic() - started < 1.5
        # A cancelled call ends at once, and the server is told.
        waiting = asyncio.create_task(call("slow", seconds=30, name="mine"))
        await asyncio.sleep(0.1)
        started = time.monotonic()
        waiting.cancel()
        await asyncio.wait({waiting})
        assert time.monotonic() - started < 0.5
        while "mine" not in (await call("which_were_cancelled")).texts[0]:
            await asyncio.sleep(0.01)
        # Too much is an error, and the next call is served.
        with pytest.raises(ServiceError, match=r"larger than the limit of 100,000 bytes"):
            await call("huge", size=300_000)
        assert (await call("add", a=2, b=2)).texts == ("4",)


async def test_a_slow_tool_meets_the_limit_and_the_session_goes_on(port: int) -> None:
    async with servers_of(s=over_http(port, timeout_s=0.8)) as servers:
        with pytest.raises(TimeoutError) as caught:
            await text_of(servers, "slow", seconds=9)
        assert caught.value.args == (0.8,)
        assert await text_of(servers, "add", a=1, b=1) == "2"


async def test_a_server_that_dies_fails_its_calls_at_once_and_is_started_again() -> None:
    async with servers_of(s=tiny()) as servers:
        first = await text_of(servers, "process")
        waiting = [asyncio.create_task(text_of(servers, "wait")) for _ in range(3)]
        await asyncio.sleep(0.05)
        started = time.monotonic()
        with pytest.raises(ServiceError, match="exit code 3"):
            await text_of(servers, "die")
        done = await asyncio.gather(*waiting, return_exceptions=True)
        assert [str(error) for error in done] == [
            "The server's process has ended with exit code 3; the log has what it wrote."
        ] * 3
        assert time.monotonic() - started < 1
        assert await text_of(servers, "process") not in ("", first)


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
async def test_a_server_that_dies_is_reached_again_when_it_is_back(path: str) -> None:
    number = free_port()
    async with servers_of(s=over_http(number, path)) as servers:
        with http_server(number):
            waiting = asyncio.create_task(text_of(servers, "slow", seconds=30))
            assert await text_of(servers, "add", a=1, b=1) == "2"
            await asyncio.sleep(0.05)
            started = time.monotonic()
            with pytest.raises(ServiceError):
                await text_of(servers, "die")
            with pytest.raises(ServiceError):
                await waiting
            assert time.monotonic() - started < 2
            with pytest.raises(ServiceError, match="No connection"):
                await text_of(servers, "add", a=1, b=1)
        with http_server(number):
            assert await text_of(servers, "add", a=1, b=1) == "2"


async def test_a_call_that_the_server_works_on_is_not_repeated_with_one_that_it_refuses(port: int) -> None:
    async with servers_of(s=over_http(port)) as servers:
        assert await text_of(servers, "add", a=1, b=1) == "2"
        working = asyncio.create_task(text_of(servers, "slow", seconds=1, name="once"))
        await asyncio.sleep(0.1)
        await text_of(servers, "forget")  # the server drops its sessions, and answers this as its last
        assert await text_of(servers, "add", a=1, b=2) == "3"
        with pytest.raises(ServiceError):
            await working


async def test_headers_are_filled_and_those_of_the_canvas_win(port: int) -> None:
    given = {"Authorization": "Bearer $token", "X-Team": "a", "X-Empty": "Bearer "}
    async with servers_of(s=over_http(port, headers=given, variables={"token": "abc"})) as servers:
        answer = await servers["s"].call("headers", {}, {"x-team": "b"})
    sent = dict(line.split(": ", 1) for line in answer.texts[0].split("\n"))
    assert (sent["authorization"], sent["x-team"], sent.get("x-empty")) == ("Bearer abc", "b", None)


@pytest.mark.parametrize(
    ("path", "said"),
    [("/deny", "answered 401"), ("/nowhere", "answered 404"), ("/away", "answered 307")],
)
@pytest.mark.parametrize("kind", ["sse", "streamable-http"])
async def test_a_url_that_is_none_says_so(port: int, path: str, said: str, kind: str) -> None:
    async with servers_of(s=over_http(port, path, kind=kind)) as servers:
        with pytest.raises(ServiceError, match=said) as caught:
            await text_of(servers, "add", a=1, b=1)
    assert "169.254" not in str(caught.value)


async def test_a_server_that_never_answers_meets_the_limit_of_the_handshake() -> None:
    async with servers_of(s=tiny("hang", initialize_timeout_s=0.2)) as servers:
        started = time.monotonic()
        calls = [text_of(servers, "echo") for _ in range(3)]
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert {str(error) for error in done} == {"The server did not finish the handshake within 0.2 s."}
        assert time.monotonic() - started < 3


@pytest.mark.parametrize(
    ("how", "said"),
    [("crash", "exit code 7"), ("no-such-command", "cannot be started: No such file or directory")],
)
async def test_a_command_that_fails_says_so(how: str, said: str) -> None:
    settings = tiny(how)
    if how != "crash":
        settings = type(settings)("stdio", how)
    async with servers_of(s=settings) as servers:
        with pytest.raises(ServiceError, match=said):
            await text_of(servers, "echo")


async def test_garbage_between_the_messages_harms_nobody() -> None:
    async with servers_of(s=tiny("garbage")) as servers:
        assert await text_of(servers, "echo", a="ü") == '{"a": "\\u00fc"}'
        with pytest.raises(ServiceError, match="not what the protocol asks for"):
            await text_of(servers, "odd")
        assert await text_of(servers, "echo", a=1) == '{"a": 1}'


async def test_an_answer_to_nobody_is_told_long_before_the_limit() -> None:
    async with servers_of(s=tiny("stray", timeout_s=60)) as servers:
        began = time.monotonic()
        with pytest.raises(ServiceError, match="the id of a request that nobody made"):
            await text_of(servers, "echo")
        assert time.monotonic() - began < 20


async def test_a_server_that_hangs_is_given_up_and_started_again() -> None:
    async with servers_of(s=tiny(timeout_s=1, initialize_timeout_s=2)) as servers:
        first = found = await text_of(servers, "process")
        with pytest.raises(TimeoutError):
            await text_of(servers, "wait")
        while found == first:  # it does not answer the ping that follows
            await asyncio.sleep(0.1)
            with suppress(ServiceError):  # a call may be on its way when the session is given up
                found = await text_of(servers, "process")


async def test_the_end_of_the_services_ends_calls_that_wait(port: int) -> None:
    async with servers_of(s=tiny()) as servers:
        waiting = asyncio.create_task(text_of(servers, "wait"))
        await text_of(servers, "echo")
    with pytest.raises(ServiceError, match="closed"):
        await waiting
