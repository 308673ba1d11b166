from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from ragflow_lg.adapters.http.http_client import GuardedHttpClient, HttpSettings
from ragflow_lg.adapters.mcp import mcp_servers
from ragflow_lg.adapters.mcp.mcp_servers import MAX_SESSIONS, McpServer, McpServers, McpServerSettings
from ragflow_lg.base import extras
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.services.tool_server import ServerAnswer
from tests.fakes.mcp_servers import text_of, tiny

WEB = McpServerSettings("streamable-http", url="https://mcp.test/mcp", headers={"X": "$v"}, variables={"v": "geheim"})


class FakeConnection:
    """A session that plays what its class was told: each entry is an answer or an error."""

    made: list[FakeConnection]
    script: list[Any]

    def __init__(self, name: str, how: Any, limits: Any, guarded: Any) -> None:
        self.how = how
        self.loop = asyncio.get_running_loop()
        self.is_over = self.is_open = self.is_busy = False
        self.is_closed = self.is_abandoned = False
        self.made.append(self)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> ServerAnswer:
        play = self.script.pop(0) if self.script else "ok"
        self.is_open = True
        if play == "busy":
            self.is_busy = True
        if play in ("refused", "broken"):
            self.is_over = True
            raise ServiceError(play, is_retryable=play == "refused")
        return ServerAnswer((play,))

    async def aclose(self) -> None:
        self.is_closed = True

    def abandon(self) -> None:
        self.is_abandoned = True


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[FakeConnection]:
    FakeConnection.made, FakeConnection.script = [], []

    async def module() -> Any:
        return SimpleNamespace(McpConnection=FakeConnection, McpLimits=lambda *limits: limits)

    monkeypatch.setattr(mcp_servers, "_module", module)
    return FakeConnection.made


def server_of(settings: McpServerSettings = WEB) -> McpServer:
    return McpServers({"s": settings}, GuardedHttpClient(HttpSettings()))["s"]


async def said(server: McpServer, headers: Mapping[str, str] | None = None) -> str:
    return (await server.call("t", {}, headers or {})).texts[0]


async def test_agents_share_a_session_unless_they_have_headers_of_their_own(made: list[FakeConnection]) -> None:
    server = server_of()
    await asyncio.gather(said(server), said(server))
    await said(server, {"Y": "1"})
    await said(server, {"Y": "1"})
    assert [session.how.headers for session in made] == [{"X": "geheim"}, {"X": "geheim", "Y": "1"}]
    await server.aclose()
    assert all(session.is_closed for session in made)


async def test_headers_of_a_canvas_mean_nothing_to_a_process(made: list[FakeConnection]) -> None:
    server = server_of(McpServerSettings("stdio", "cmd", ("$v",), {"TOKEN": "$v"}, variables={"v": "geheim"}))
    await said(server, {"Y": "1"})
    await said(server)
    assert len(made) == 1
    assert (made[0].how.args, made[0].how.env) == (("$v",), {"TOKEN": "geheim"})


async def test_a_call_that_was_surely_not_carried_out_is_tried_on_a_new_session(made: list[FakeConnection]) -> None:
    server = server_of()
    FakeConnection.script = ["first", "refused", "second"]
    assert [await said(server), await said(server)] == ["first", "second"]
    assert len(made) == 2


@pytest.mark.parametrize(("script", "calls"), [(["ok", "broken"], 2), (["refused"], 1)])
async def test_no_other_call_is_repeated(made: list[FakeConnection], script: list[str], calls: int) -> None:
    server = server_of()
    FakeConnection.script = list(script)
    for _ in range(calls - 1):
        await said(server)
    with pytest.raises(ServiceError, match=script[-1]):
        await said(server)
    assert await said(server) == "ok"  # the next call begins anew
    assert len(made) == 2


async def test_sessions_are_bounded_and_the_one_unused_longest_goes(made: list[FakeConnection]) -> None:
    server = server_of()
    FakeConnection.script = ["busy"]
    for number in range(MAX_SESSIONS + 3):
        await said(server, {"Y": str(number)})
    await asyncio.sleep(0)
    assert [i for i, session in enumerate(made) if session.is_closed] == [1, 2, 3]


async def test_a_url_that_is_none_is_an_error_without_it(made: list[FakeConnection]) -> None:
    with pytest.raises(ServiceError, match=r"url of \[mcp.\"s\"\]") as caught:
        await said(server_of(McpServerSettings("sse", url="ftp://user:geheim@host/")))
    assert "geheim" not in str(caught.value)


def test_secrets_are_not_shown() -> None:
    assert "geheim" not in repr(WEB)


def test_the_settings_say_which_tools_there_are() -> None:
    server = server_of(McpServerSettings("stdio", "cmd", allow=("read",)))
    server.check("read")
    with pytest.raises(SettingsError, match=r"'write' of the MCP server 's': it is not in allow of \[mcp.\"s\"\]"):
        server.check("write")


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"pip install 'ragflow-lg\[mcp\]'"):
        server_of().check("t")


def test_servers_outlive_their_event_loop() -> None:
    servers = McpServers({"s": tiny()}, GuardedHttpClient(HttpSettings()))

    async def turn() -> str:
        return await text_of(servers, "process")

    async def last() -> str:
        found = await turn()
        await servers.aclose()
        return found

    assert asyncio.run(turn()) != asyncio.run(last())
    assert list(servers) == ["s"]
    assert len(servers) == 1
